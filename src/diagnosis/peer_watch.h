// Notices that a peer has ended, in a call or outside of calls, and tells the others.
//
//   the peer's end, as its links show it             this rank
//   a leave notice, then the connection hangs up     nothing: the peer left in good order
//   the connection hangs up without a leave notice   a loss: the peer is gone
//   a last word (it gave up, and the cause)          a loss with a cause
//   a connection that cannot be made                 a loss, unless another rank explains it in
//   time
//
// The first loss is told to all ranks that this one is connected with, and they tell it on. A later
// loss is told only if it explains more (Loss::says_more_than). Since every rank keeps some
// connections (overlay.h), the notice reaches all of them in milliseconds. Ranks of one host
// without a stream find it in their arena: calls look there at once, the control thread within a
// second.
//
// Everything happens on the control thread (bootstrap/watch.h): it wakes when a link hangs up, when
// a stream that no call reads has input, and when a note for it has come (Bell), even if another
// thread read that note.
//
// Owns: its entries of the watch; no link. Lifetime: within the group's and the stall's; it is
// destroyed when no link settles any more (Membership::stop_serving()).
// Threads: any. Errors: create() fails if this rank would hear of no peer at all; a single
// connection that cannot be watched is reported, and calls still notice that peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/bootstrap/watch.h"
#include "src/diagnosis/bell.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/stall.h"
#include "src/group/view.h"

namespace tutti::diagnosis {

class PeerWatch {
 public:
  /// All arguments outlive it.
  static Result<std::unique_ptr<PeerWatch>> create(bootstrap::Watch& watch,
                                                   const group::GroupView& group, Stall& stall,
                                                   Health& health);
  /// Sends a leave notice to all connected ranks, unless the group has failed.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// The loss that shall end calls, once they have had time to end by messages that were sent
  /// before it. Cheap while there is none.
  std::optional<Loss> judge();
  /// Before this rank leaves in good order, while links are still served: waits until no connection
  /// is half made, for a second at most. A peer whose end of it is already made would otherwise see
  /// it hang up without a leave notice, and take this rank for dead.
  void finish_meeting() const;
  /// This rank has failed, and the connected ranks were told; it passes on no more notices.
  void end() { over_.store(true, std::memory_order_release); }
  /// Whether a thread of its own (comm::ProgressThread) reads the links with one-sided access.
  void attended(bool is) { attended_.store(is, std::memory_order_release); }

 private:
  PeerWatch(bootstrap::Watch& watch, const group::GroupView& group, Stall& stall, Health& health);

  struct PeerVisits {
    uint64_t notices = 0;
    uint64_t asked = 0;
    uint64_t last = 0;
    uint64_t visit = 0;  // the number of the last visit that read its stream
  };

  Status open();
  void listen_to_all();
  Status watch(int fd, bootstrap::Watch::News news, bootstrap::Watch::Visit visit);
  Status start_timer();
  void settled(int peer);
  Status watch_connection(int peer, int fd);
  uint64_t left_host(int peer);
  void hung_up(int peer);
  uint64_t hear_streams();
  void hear_stream(int peer);
  uint64_t read_notes();
  uint64_t answer();
  void listen(int peer);
  void hear_host();
  void lost(const Loss& loss);
  void could_not_meet(int peer);
  void tell(const Loss& loss);
  bool has_left(int peer) const;
  bool has_failed() const;
  const Contact& contact(int rank) const { return contacts_[static_cast<size_t>(rank)]; }
  std::atomic<uint64_t>& told_by_host() const { return *contact(rank_).words.lost; }
  bool is_mine(transport::ChannelId channel) const;

  bootstrap::Watch& watch_;
  const group::GroupView& group_;
  Stall& stall_;
  Health& health_;
  const std::vector<Contact>& contacts_;
  const int rank_;
  bool has_streams_ = false;

  Fd streams_;  // an epoll set of the streams that no call reads
  Bell bell_;   // rung by any thread that reads a note for this one, also under links' locks
  Fd timer_;
  std::vector<PeerVisits> heard_;  // by rank; of the control thread
  uint64_t visits_ = 0;            // of hear_streams()

  Mutex watched_mutex_;
  std::vector<int> watched_ TUTTI_GUARDED_BY(watched_mutex_);

  Mutex loss_mutex_;
  std::optional<Loss> loss_ TUTTI_GUARDED_BY(loss_mutex_);  // the first, or one that explains more
  bool told_ TUTTI_GUARDED_BY(loss_mutex_) = false;         // other ranks were told of it
  uint64_t judged_at_ns_ TUTTI_GUARDED_BY(loss_mutex_) = 0;
  std::atomic<bool> has_loss_{false};
  std::atomic<bool> over_{false};
  std::atomic<bool> attended_{false};
};

}  // namespace tutti::diagnosis
