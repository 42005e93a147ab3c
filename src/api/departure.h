// The end of a communicator: in good order, all ranks together, or at once.
//
// A rank that leaves waits for the others to be done with it. One thread may hold several ranks of
// a group and destroy one after the other, so the ranks of a process do not wait for each other:
// they are held, and the last one leaves for all.
//
// Threads: any. Errors: none of the way out, since a rank that is gone cannot be waited for; only
// that a peer is still inside a window's memory. The rank has ended all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/communicator.h"

namespace tutti::api {

/// The ranks of this process that have not left, by group.
class PendingTeardowns {
 public:
  using Ranks = std::vector<std::unique_ptr<comm::Communicator>>;

  /// A rank of the group was made here.
  void add(uint64_t communicator);
  /// Holds the rank. Returns all that are held if none of its group is still in use here.
  Ranks hold(std::unique_ptr<comm::Communicator> rank);
  /// A rank of the group ended by itself. Returns as hold() does.
  Ranks remove(uint64_t communicator);

 private:
  struct GroupInUse {
    int in_use = 0;
    Ranks parked;
  };
  Ranks take_if_complete(uint64_t communicator) TUTTI_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<uint64_t, GroupInUse> groups_ TUTTI_GUARDED_BY(mutex_);
};

/// Graphs run no calls of it any more; if one is launched all the same, the log says so once, with
/// the reason why the epoch is over: "it was destroyed".
void close_to_graphs(comm::Communicator& rank, const std::string& since);
/// Waits for what is queued and for the other ranks, as said above, and frees. For the other ranks
/// no longer than until `wanted` says that this process has something more urgent to do.
Status depart(std::unique_ptr<comm::Communicator> rank, PendingTeardowns& teardowns,
              const std::function<bool()>& wanted);
/// With nobody in a blocking call: waits for what is queued, which an error ends on the other
/// ranks, too, and frees.
Status abandon(std::unique_ptr<comm::Communicator> rank, PendingTeardowns& teardowns);

}  // namespace tutti::api
