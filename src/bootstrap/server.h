// The meeting place of a job: a thread in the process that made the unique id. It takes one blob
// from every rank and gives all of them to each.
//
// It lives until its groups are served, or until it is stopped; as long as nobody has come, for as
// long as its process. A group fails as a whole if it cannot come together: a rank comes twice, two
// ranks name different group sizes, a rank's time is over, or a rank aborts, or leaves and does not
// come again. Every rank is told why, latecomers too.
//
// Owns: listeners, connections, one thread. Threads: everything from one; the server has its own.
// Errors: start() says which address could not be used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/unique_id.h"
#include "src/transport/door/gate.h"

namespace tutti::bootstrap {

struct ServerOptions {
  int groups = 1;  // how many exchanges are served, one after the other
  /// Once a rank has come, the waiting ranks give up when no other one comes for so long.
  uint64_t idle_ns = kNoDeadline;
  /// The waiting ranks give up when the server has had no descriptor for a new connection for so
  /// long. Their own connections stay open meanwhile, but another thread may close something.
  uint64_t closed_ns = 10 * kNanosecondsPerSecond;
  /// A rank whose connection has ended may come again within this time.
  uint64_t return_ns = 60 * kNanosecondsPerSecond;
  /// A server of a failed group ends so long after its last caller; until then it tells latecomers
  /// why.
  uint64_t linger_ns = 60 * kNanosecondsPerSecond;
  /// The listener serves other servers later, so this one admits no rank after its last group.
  /// Without this, latecomers are told that they are late.
  bool one_of_many = false;
  /// Ranks (rising) that the group counts and does without. One of them that comes is told so, and
  /// the group goes on.
  std::vector<int> left_out = {};
  /// A rank that comes to another meeting (ExchangeKey) gets no answer at first. Its connection is
  /// closed when this meeting is over; if that takes longer than `stranger_ns`, the number must be
  /// a mistake, and the rank takes part.
  int meeting_number = 0;
  uint64_t stranger_ns = 10 * kNanosecondsPerSecond;
};

class ServerLoop;

class Server {
 public:
  /// Listens on the addresses of `id`; port 0 chooses one. Addresses that cannot be used are left
  /// out. A released server of this process whose group has failed makes room.
  static Result<std::unique_ptr<Server>> start(const UniqueId& id, const ServerOptions& options);
  /// On a listener that exists: `id` says where.
  static Result<std::unique_ptr<Server>> start_on(KeptFd listener, const UniqueId& id,
                                                  const ServerOptions& options);
  /// Ends the thread.
  ~Server();

  /// Waits until every rank has its answer.
  void finish(const WaitLimit& wait_limit) const;

  /// The group cannot come together: every rank is told why.
  void fail(const Status& reason) const;

  /// With the port and the addresses that are really listened on.
  const UniqueId& id() const { return id_; }
  bool finished() const;

  /// From now on the server ends by itself: for a unique id without an owner.
  static void release(std::unique_ptr<Server> server);

 private:
  using Gates = std::vector<std::unique_ptr<transport::door::Gate>>;
  static Result<std::unique_ptr<Server>> start_behind(Gates gates, const UniqueId& id,
                                                      const ServerOptions& options);
  Server(const UniqueId& id, std::shared_ptr<ServerLoop> loop);

  UniqueId id_;
  std::shared_ptr<ServerLoop> loop_;  // shared with the thread, which may outlive the server
  std::thread thread_;
};

/// A new job with new secrets that meets at the first of `addresses` (UniqueId::kMaxAddresses are
/// published) and at the configuration's port.
Result<std::unique_ptr<Server>> open_server(std::vector<Address> addresses, const Config& config);

/// For tuttiGetUniqueId: such a server at this host's addresses, which is let go. `variables` may
/// name a place that the ranks share (named_places). With a secret the id is a public one.
Result<UniqueId> create_unique_id(const Config& config, const Variables& variables,
                                  const SecretKey* secret = nullptr);

}  // namespace tutti::bootstrap
