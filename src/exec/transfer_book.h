// The transfers of a rank's streams, compared with those that the peers have called: a TransferLog
// for either direction with every peer.
//
// Owns: the count of transfers. Threads: announce() by one at a time; find_recent() as long as no
// announce() is under way. Errors: a Dispute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/exec/transfer.h"
#include "src/exec/transfer_log.h"

namespace tutti::exec {

class TransferBook {
 public:
  /// `entries` of each rank: those of its receives from rank 0, its sends there, its receives from
  /// rank 1, and so on, TransferLog::kEntries each. `pair_bytes`: so much from one rank to another
  /// can be on its way; `name_of`: a rank, in messages.
  TransferBook(std::vector<TransferLog::CalledEntry*> entries, int rank, uint64_t pair_bytes,
               std::function<std::string(int)> name_of);

  /// A transfer that `peer` called otherwise than this rank.
  struct Dispute {
    Status status;
    int peer = 0;
  };

  /// Their two ends have it in common, besides the bytes.
  struct Manner {
    std::optional<schedule::Collective> part_of = {};  // a v-collective; none: sends and receives
    std::span<const uint32_t> slots = {};  // of the first pieces; empty: no graph fixes them
    bool by_host = false;                  // their options send them there
    std::span<const uint32_t> marks = {};  // RegisteredTransfers'
  };
  /// Tells the peers of the transfers; the first that differs from what a peer has called before.
  /// Those with this rank itself are left out.
  std::optional<Dispute> announce(std::span<const Transfer> transfers, const Manner& manner);
  /// The first difference among the last transfers with each peer.
  std::optional<Dispute> find_recent() const;
  /// Some peer has not called as many transfers with this rank as this rank with it, so that a
  /// difference may still turn up.
  bool awaits_peers() const;
  /// The first of the transfers' peers that has not called as many with this rank as this rank with
  /// it.
  std::optional<int> find_late(std::span<const Transfer> transfers) const;

 private:
  static size_t way_of(size_t peer, bool sends) { return 2 * peer + (sends ? 1 : 0); }
  void count(std::span<const Transfer> transfers);
  bool is_exchange(size_t peer) const;
  const TransferLog::CalledEntry* entries_of(size_t peer, bool sends) const;
  Dispute describe(size_t peer, bool sends, const TransferLog::Disparity& found) const;

  std::vector<TransferLog::CalledEntry*> entries_;  // by rank
  size_t rank_;
  uint64_t pair_bytes_;
  std::function<std::string(int)> name_of_;
  std::vector<TransferLog> logs_;  // by way_of()
  std::vector<uint64_t> bytes_;    // likewise, of the transfers that are announced
};

}  // namespace tutti::exec
