#include "src/exec/transfer_log.h"

#include <algorithm>

namespace tutti::exec {
namespace {

constexpr int kPartAt = 56;  // 0: a send or receive; else a collective's number + 1
constexpr uint64_t kInExchange = uint64_t{1} << 55;
constexpr uint64_t kByHost = uint64_t{1} << 54;
constexpr int kSlotAt = 51;
constexpr int kMarkAt = 40;  // so much memory no transfer has
constexpr uint64_t kSlotMask = 7, kMarkMask = (uint64_t{1} << (kSlotAt - kMarkAt)) - 1;
constexpr uint64_t kBytesMask = (uint64_t{1} << kMarkAt) - 1;

uint64_t word_of(const CalledTransfer& transfer) {
  const uint64_t part = transfer.part_of ? static_cast<uint64_t>(*transfer.part_of) + 1 : 0;
  const uint64_t slot = transfer.slot & kSlotMask;
  return part << kPartAt | (transfer.in_exchange ? kInExchange : 0) |
         (transfer.by_host ? kByHost : 0) | slot << kSlotAt |
         (transfer.mark & kMarkMask) << kMarkAt | (transfer.bytes & kBytesMask);
}

CalledTransfer read_transfer(uint64_t word) {
  CalledTransfer transfer{
      word & kBytesMask,         std::nullopt,
      (word & kInExchange) != 0, static_cast<uint8_t>(word >> kSlotAt & kSlotMask),
      (word & kByHost) != 0,     static_cast<uint32_t>(word >> kMarkAt & kMarkMask)};
  const uint64_t part = word >> kPartAt;
  if (part > 0 && part <= schedule::kCollectives) {
    transfer.part_of = static_cast<schedule::Collective>(part - 1);
  }
  return transfer;
}

// Never 0, so that no entry's word is.
uint32_t mixed(uint32_t hash, uint64_t word) {
  const uint64_t product = ((uint64_t{hash} << 32 | hash) ^ word) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>((product ^ product >> 29) >> 16) | 1u;
}

/// Both words of an entry, as they were at one time.
struct Read {
  uint64_t word = 0, what = 0;
};

std::optional<Read> read(const TransferLog::CalledEntry* entries, uint32_t number) {
  const TransferLog::CalledEntry& entry = entries[number % TransferLog::kEntries];
  const Read found{entry.word.load(std::memory_order_seq_cst),
                   entry.what.load(std::memory_order_acquire)};
  if (found.word >> 32 != number || found.word == 0) return std::nullopt;
  if (entry.word.load(std::memory_order_acquire) != found.word) return std::nullopt;
  return found;
}

std::string text_of(const CalledTransfer& transfer, bool is_send) {
  const std::string bytes = std::to_string(transfer.bytes) + " bytes" +
                            (transfer.in_exchange ? ", in a group with much the other way" : "") +
                            (transfer.by_host ? ", whose options ask for the engine host" : "");
  if (!transfer.part_of) return std::string(is_send ? "send of " : "recv of ") + bytes;
  const bool has_root = schedule::traits_of(*transfer.part_of).rooted();
  return std::string(schedule::name_of(*transfer.part_of)) + (has_root ? "" : "_v") +
         " with a share of " + bytes;
}

}  // namespace

bool TransferLog::has_begun(const CalledEntry* theirs, uint32_t number) {
  const uint64_t word = theirs[number % kEntries].word.load(std::memory_order_acquire);
  return word == 0 ? number == 0
                   : static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - number) >= 0;
}

uint32_t TransferLog::begin(const CalledTransfer& transfer) {
  const uint64_t what = word_of(transfer);
  hash_ = mixed(hash_, what);
  CalledEntry& entry = entries_[++number_ % kEntries];
  // A release instead of a fence: whoever sees the new word sees that the old one was taken away.
  entry.word.store(0, std::memory_order_relaxed);
  entry.what.store(what, std::memory_order_release);
  entry.word.store(uint64_t{number_} << 32 | hash_, std::memory_order_seq_cst);
  return number_;
}

std::optional<TransferLog::Disparity> TransferLog::compare(const CalledEntry* theirs,
                                                           uint32_t number) const {
  const std::optional<Read> own = read(entries_, number), other = read(theirs, number);
  if (!own || !other || own->word == other->word) return std::nullopt;
  return Disparity{number, read_transfer(own->what), read_transfer(other->what)};
}

std::optional<TransferLog::Disparity> TransferLog::compare_last(const CalledEntry* theirs,
                                                                uint32_t most) const {
  const uint32_t count = std::min({number_, most, kEntries});
  for (uint32_t back = count; back > 0; --back) {
    if (const auto found = compare(theirs, number_ - back + 1)) return found;
  }
  return std::nullopt;
}

std::string transfers_text(const std::string& source, const CalledTransfer& sent,
                           const std::string& target, const CalledTransfer& received) {
  std::string text =
      source + ": " + text_of(sent, true) + "; " + target + ": " + text_of(received, false);
  if (sent == received) text += ", and one before it, which is not known any more, differed";
  return text;
}

}  // namespace tutti::exec
