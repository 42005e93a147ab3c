// The meeting place of a job: a thread in the process that made the unique id. It takes one blob
// from every rank and gives all of them to each.
//
// It lives until its groups are served, or until it is stopped; as long as nobody has come, for as
// long as its process. A group that cannot come together (a rank twice, two group sizes, somebody's
// patience at its end, a rank that aborts, or went away and does not come again) fails as a whole,
// and every rank is told why, latecomers too.
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
  /// For how long nobody new comes, once somebody has come, before those who wait give up.
  uint64_t idle_ns = kNoDeadline;
  /// For how long nobody can be let in for want of descriptors before those who wait give up: what
  /// they hold does not come free, but another thread may close something.
  uint64_t closed_ns = 10 * kNanosecondsPerSecond;
  /// A rank that went away may come again for so long.
  uint64_t return_ns = 60 * kNanosecondsPerSecond;
  /// For how long after the last caller a failed group's latecomers are told why.
  uint64_t linger_ns = 60 * kNanosecondsPerSecond;
  /// The listener serves others later: it admits nobody after its last group. Without this,
  /// latecomers are told that they are.
  bool one_of_many = false;
  /// Ranks (rising) that the group does without, though it counts them: who is one of them is told
  /// so, and disturbs nobody.
  std::vector<int> left_out = {};
  /// A rank that comes to another meeting (ExchangeKey) waits for that, without an answer: until
  /// this one is over, when its connection is closed, or for so long that it must be a mistake, and
  /// then takes part.
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

  /// Waits until everybody has got an answer.
  void finish(const WaitLimit& wait_limit) const;

  /// The group cannot come together: every rank is told why.
  void fail(const Status& reason) const;

  /// With the port and the addresses that are really listened on.
  const UniqueId& id() const { return id_; }
  bool finished() const;

  /// The server ends by itself from now on: for a unique id that nobody owns.
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
