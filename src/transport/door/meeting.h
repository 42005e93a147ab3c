// Connects pairs of ranks whose links are made at once, one after the other: a rank calls those
// above it, and lets in those below. A caller is served when it comes, even if another rank is
// awaited, because callers may be waiting for each other in a circle.
//
// Owns:    the listener, and links of callers until they are asked for.
// Threads: one.
// Errors:  those of the call, of the gate and of `introduce`; a caller that died before it was
//          asked for is its own meet()'s error.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "src/base/fork.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/door/gate.h"
#include "src/transport/door/handshake.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transport::door {

class LinkMeeting {
 public:
  using MadeLink = Result<std::unique_ptr<Link>>;
  /// A socket to the peer's listener, connected or about to be.
  using Dial = std::function<Result<KeptFd>()>;
  /// Makes the link with that peer of a socket on which both ends have proved themselves.
  using Introduce = std::function<MadeLink(KeptFd socket, int peer)>;

  /// `member` outlives it.
  LinkMeeting(KeptFd listener, const Member& member, Purpose purpose, Gate::Vet vet = {});

  MadeLink meet(int peer, const Dial& dial, const Introduce& introduce,
                const WaitLimit& wait_limit);

 private:
  static Identity identity(const Member& member, int peer, Purpose purpose);
  MadeLink await(int peer, const Introduce& introduce, const WaitLimit& wait_limit);

  const Member& member_;
  const Purpose purpose_;
  Gate gate_;
  std::map<int, std::unique_ptr<Link>> early_;
};

}  // namespace tutti::transport::door
