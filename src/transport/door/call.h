// The caller's side of a gate: one attempt in steps, for a thread that makes many at once, and
// pass_gate(), which repeats it while its patience lasts.
//
// Owns:    the socket, until take().
// Threads: one.
// Errors:  those of connect() and of the handshake; Attempts says which of them are worth another
//          attempt.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "src/base/fork.h"
#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/door/handshake.h"
#include "src/transport/member.h"

namespace tutti::transport::door {

class OutgoingCall {
 public:
  /// `fd` is non-blocking; it is connected or about to be. `key` outlives the call.
  OutgoingCall(KeptFd fd, const JobKey& key, const Identity& self);

  /// Never waits. True: this rank is let in, and take() gives the socket. False: wait until it is
  /// ready for events().
  Result<bool> step();
  int fd() const { return fd_.get(); }
  short events() const { return reached() ? POLLIN : POLLOUT; }
  /// The socket is in the set by this tag, and waits for what it should, from now on.
  Status list_in(const PollSet& set, uint64_t tag);
  /// Somebody listens.
  bool reached() const { return introduction_.has_value(); }
  /// The peer may have let this rank in: who hangs up now may hang up a connection.
  bool proved() const { return reached() && introduction_->proved(); }
  bool cut_off() const { return reached() && introduction_->cut_off(); }
  /// Once step() has said true.
  Binding binding() const { return introduction_->binding(); }
  KeptFd take() { return fd_.take(); }

 private:
  Result<bool> connected();

  PolledFd fd_;
  const JobKey* key_;
  Identity self_;
  const PollSet* set_ = nullptr;
  uint64_t tag_ = 0;
  std::optional<Introduction> introduction_;  // once connected
};

/// Being hung up on before the gate has said anything is no refusal, nor is being put off: it is
/// busy with others. Its answer may then be lost, so a refusal without a reason counts when it
/// comes again and again.
class Attempts {
 public:
  static constexpr uint64_t kPauseNs = 5'000'000;  // before the next one

  /// The call failed so: is another one worth it?
  bool again(const OutgoingCall& call, const Status& status);

 private:
  int cut_off_ = 0;
};

/// Dials until it is let in, refused, or out of time. Errors of `dial` are final.
Result<KeptFd> pass_gate(const std::function<Result<KeptFd>()>& dial, const JobKey& key,
                         const Identity& self, const WaitLimit& wait_limit);

}  // namespace tutti::transport::door
