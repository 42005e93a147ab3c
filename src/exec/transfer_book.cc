#include "src/exec/transfer_book.h"

#include <algorithm>
#include <utility>

namespace tutti::exec {

TransferBook::TransferBook(std::vector<TransferLog::CalledEntry*> entries, int rank,
                           uint64_t pair_bytes, std::function<std::string(int)> name_of)
    : entries_(std::move(entries)),
      rank_(static_cast<size_t>(rank)),
      pair_bytes_(pair_bytes),
      name_of_(std::move(name_of)) {
  for (size_t way = 0; way < 2 * entries_.size(); ++way) {
    logs_.emplace_back(entries_[rank_] + way * TransferLog::kEntries);
  }
}

// Where the peer writes its end of what this rank sends, or receives.
const TransferLog::CalledEntry* TransferBook::entries_of(size_t peer, bool sends) const {
  return entries_[peer] + way_of(rank_, !sends) * TransferLog::kEntries;
}

TransferBook::Dispute TransferBook::describe(size_t peer, bool sends,
                                             const TransferLog::Disparity& found) const {
  const std::string own = name_of_(static_cast<int>(rank_));
  const std::string other = name_of_(static_cast<int>(peer));
  const std::string text = sends ? transfers_text(own, found.mine, other, found.theirs)
                                 : transfers_text(other, found.theirs, own, found.mine);
  std::string advice;
  if (found.mine.bytes == found.theirs.bytes &&
      found.mine.in_exchange != found.theirs.in_exchange) {
    advice =
        ": more than the " + std::to_string(pair_bytes_) +
        " bytes that can be on their way: call what goes both ways in one group on both ranks, "
        "or on neither";
  }
  if (found.mine.bytes == found.theirs.bytes && found.mine.slot != found.theirs.slot) {
    advice = ", at another place of its graph: capture the same calls into one graph on both ranks";
  }
  if (found.mine.bytes == found.theirs.bytes && found.mine.mark != found.theirs.mark) {
    advice =
        ", with other memory registered, or by another engine: register and deregister on all "
        "ranks between the same calls";
  }
  return {Status::invalid_usage("transfer " + std::to_string(found.number) + " from " +
                                (sends ? own : other) + " to " + (sends ? other : own) +
                                " on device memory differs: " + text + advice),
          static_cast<int>(peer)};
}

void TransferBook::count(std::span<const Transfer> transfers) {
  bytes_.assign(logs_.size(), 0);
  for (const Transfer& transfer : transfers) {
    bytes_[way_of(transfer.peer, transfer.is_send)] += transfer.bytes;
  }
}

// Pieces of both ways take turns on this rank: they must on the peer, too.
bool TransferBook::is_exchange(size_t peer) const {
  return std::min(bytes_[way_of(peer, true)], bytes_[way_of(peer, false)]) > pair_bytes_;
}

std::optional<TransferBook::Dispute> TransferBook::announce(std::span<const Transfer> transfers,
                                                            const Manner& manner) {
  count(transfers);
  // All are told of before one is compared: a peer that finds a difference with another one of them
  // then gives up, and those that hear of it compare their own.
  std::vector<uint32_t> numbers(transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.peer == rank_) continue;
    TransferLog& log = logs_[way_of(transfer.peer, transfer.is_send)];
    CalledTransfer called{.bytes = transfer.bytes, .part_of = manner.part_of};
    called.by_host = manner.by_host;
    called.in_exchange = !manner.by_host && is_exchange(transfer.peer);
    if (!manner.marks.empty()) called.mark = manner.marks[i];
    if (!manner.slots.empty()) called.slot = static_cast<uint8_t>(manner.slots[i]);
    numbers[i] = log.begin(called);
  }
  for (size_t i = 0; i < transfers.size(); ++i) {
    const auto& [peer, is_send] = std::pair(transfers[i].peer, transfers[i].is_send);
    if (peer == rank_) continue;
    const auto found = logs_[way_of(peer, is_send)].compare(entries_of(peer, is_send), numbers[i]);
    if (found) return describe(peer, is_send, *found);
  }
  return std::nullopt;
}

bool TransferBook::awaits_peers() const {
  for (size_t peer = 0; peer < entries_.size(); ++peer) {
    for (const bool sends : {false, true}) {
      const uint32_t number = logs_[way_of(peer, sends)].number();
      if (number > 0 && !TransferLog::has_begun(entries_of(peer, sends), number)) return true;
    }
  }
  return false;
}

std::optional<TransferBook::Dispute> TransferBook::find_recent() const {
  constexpr uint32_t kMost = 64;
  for (size_t peer = 0; peer < entries_.size(); ++peer) {
    for (const bool sends : {false, true}) {
      const TransferLog& log = logs_[way_of(peer, sends)];
      if (const auto found = log.compare_last(entries_of(peer, sends), kMost)) {
        return describe(peer, sends, *found);
      }
    }
  }
  return std::nullopt;
}

std::optional<int> TransferBook::find_late(std::span<const Transfer> transfers) const {
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank_) continue;
    const uint32_t number = logs_[way_of(transfer.peer, transfer.is_send)].number();
    if (!TransferLog::has_begun(entries_of(transfer.peer, transfer.is_send), number)) {
      return static_cast<int>(transfer.peer);
    }
  }
  return std::nullopt;
}

}  // namespace tutti::exec
