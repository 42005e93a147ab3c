#include "src/engines/streams/capture_comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/exec/transfer_log.h"

namespace tutti::engines::streams {
namespace {

// A key: the sequence, the number of the capture in it, the place in the capture.
constexpr int kOrdinalAt = 20, kSequenceAt = 48;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kOrdinalAt) - 1;
constexpr uint64_t kOrdinalMask = (uint64_t{1} << (kSequenceAt - kOrdinalAt)) - 1;
constexpr uint64_t kOfAll = 0;  // a sequence
constexpr uint64_t kMostRanks = 128;

uint64_t key_of(uint64_t sequence, uint64_t ordinal, uint64_t place) {
  return sequence << kSequenceAt | (ordinal & kOrdinalMask) << kOrdinalAt | (place & kPlaceMask);
}
uint64_t sequence_of(uint64_t key) { return key >> kSequenceAt; }
uint64_t ordinal_of(uint64_t key) { return key >> kOrdinalAt & kOrdinalMask; }
uint64_t place_of(uint64_t key) { return key & kPlaceMask; }

uint64_t sequence_between(uint64_t source, uint64_t target) {
  return 1 + source * kMostRanks + target;
}
size_t source_of(uint64_t sequence) { return (sequence - 1) / kMostRanks; }
size_t target_of(uint64_t sequence) { return (sequence - 1) % kMostRanks; }

exec::CalledTransfer transfer_of(const diagnosis::DescribedWords& words) {
  exec::CalledTransfer called;
  called.bytes = words[0];
  if (words[1] != 0) called.part_of = static_cast<schedule::Collective>(words[1] - 1);
  return called;
}

}  // namespace

std::vector<CaptureComparison::KeyedCall> CaptureComparison::calls_of(const CapturedPart& part) {
  std::vector<KeyedCall> calls;
  uint64_t part_of = 0;
  if (part.call != nullptr) {
    part_of = static_cast<uint64_t>(part.call->collective) + 1;
    calls.push_back(
        {next_key(part.capture, kOfAll), part.signature, diagnosis::words_of(*part.call)});
  }
  for (const exec::Transfer& transfer : part.transfers) {
    if (transfer.peer == rank_) continue;
    const uint64_t sequence = transfer.is_send ? sequence_between(rank_, transfer.peer)
                                               : sequence_between(transfer.peer, rank_);
    calls.push_back({next_key(part.capture, sequence),
                     transfer.bytes << 8 | part_of,
                     {transfer.bytes, part_of}});
  }
  return calls;
}

// All of them are written before the first is compared, so the second of two ranks sees those of
// the first.
std::optional<std::string> CaptureComparison::announce(const CapturedPart& part) {
  const MutexLock lock(mutex_);
  const std::vector<KeyedCall> calls = calls_of(part);
  for (const KeyedCall& one : calls) write(one);
  if (told_ == part.capture) return std::nullopt;
  for (const KeyedCall& one : calls) {
    std::optional<std::string> found = compare(one, false);
    if (!found) continue;
    told_ = part.capture;
    return found;
  }
  return std::nullopt;
}

uint64_t CaptureComparison::next_key(uint64_t capture, uint64_t sequence) {
  Counted& counted = counted_[sequence];
  if (std::exchange(counted.capture, capture) != capture) {
    ++counted.ordinal;
    counted.place = 0;
  }
  return key_of(sequence, counted.ordinal, ++counted.place);
}

// A reader that sees a new word must also see that the key was set to 0 before it.
void CaptureComparison::write(const KeyedCall& call) {
  CaptureEntry& entry = ranks_.entries[rank_][written_++ % CaptureEntry::kEntries];
  entry.key.store(0, std::memory_order_relaxed);
  entry.signature.store(call.signature, std::memory_order_release);
  for (size_t i = 0; i < call.words.size(); ++i) {
    entry.words[i].store(call.words[i], std::memory_order_release);
  }
  entry.key.store(call.key, std::memory_order_seq_cst);
}

std::optional<CaptureComparison::KeyedCall> CaptureComparison::read(const CaptureEntry& entry) {
  KeyedCall read;
  read.key = entry.key.load(std::memory_order_seq_cst);
  read.signature = entry.signature.load(std::memory_order_acquire);
  for (size_t i = 0; i < read.words.size(); ++i) {
    read.words[i] = entry.words[i].load(std::memory_order_acquire);
  }
  if (read.key == 0 || entry.key.load(std::memory_order_relaxed) != read.key) return std::nullopt;
  return read;
}

std::optional<std::string> CaptureComparison::find() const {
  constexpr uint64_t kMost = 256;  // of the last ones
  const MutexLock lock(mutex_);
  for (uint64_t at = written_ > kMost ? written_ - kMost : 0; at < written_; ++at) {
    const auto mine = read(ranks_.entries[rank_][at % CaptureEntry::kEntries]);
    if (!mine) continue;
    if (std::optional<std::string> found = compare(*mine, true)) return found;
  }
  return std::nullopt;
}

std::optional<diagnosis::DescribedCall> CaptureComparison::find_call(size_t rank,
                                                                     uint32_t signature) const {
  for (uint32_t i = 0; i < CaptureEntry::kEntries; ++i) {
    const std::optional<KeyedCall> one = read(ranks_.entries[rank][i]);
    const bool is_it = one && sequence_of(one->key) == kOfAll && one->signature == signature;
    if (is_it) return diagnosis::read_call(one->words);
  }
  return std::nullopt;
}

bool CaptureComparison::concerns(uint64_t key, size_t peer) const {
  const uint64_t sequence = sequence_of(key);
  if (peer == rank_) return false;
  return sequence == kOfAll || source_of(sequence) == peer || target_of(sequence) == peer;
}

std::optional<std::string> CaptureComparison::compare(const KeyedCall& mine,
                                                      bool names_missing) const {
  for (size_t peer = 0; peer < ranks_.entries.size(); ++peer) {
    if (!concerns(mine.key, peer)) continue;
    const FoundThere there = look_for(mine, peer);
    if (there.same_call) continue;
    const bool is_missing = names_missing && there.has_the_capture;
    if (there.same_key || is_missing) return text(mine, peer, there.same_key);
  }
  return std::nullopt;
}

CaptureComparison::FoundThere CaptureComparison::look_for(const KeyedCall& mine,
                                                          size_t rank) const {
  FoundThere found;
  for (uint32_t i = 0; i < CaptureEntry::kEntries; ++i) {
    const CaptureEntry& entry = ranks_.entries[rank][i];
    const uint64_t key = entry.key.load(std::memory_order_seq_cst);
    if (key == 0 || sequence_of(key) != sequence_of(mine.key)) continue;
    if (ordinal_of(key) == ordinal_of(mine.key)) found.has_the_capture = true;
    if (place_of(key) != place_of(mine.key)) continue;
    const std::optional<KeyedCall> theirs = read(entry);
    if (!theirs) continue;
    if (theirs->signature == mine.signature) found.same_call = true;
    if (theirs->key == mine.key) found.same_key = theirs->words;
  }
  return found;
}

std::string CaptureComparison::text(const KeyedCall& mine, size_t peer,
                                    const std::optional<Words>& theirs) const {
  const std::string self = ranks_.name_of(ranks_.rank);
  const std::string other = ranks_.name_of(static_cast<int>(peer));
  const uint64_t sequence = sequence_of(mine.key);
  const std::string head =
      fmt::format("{} {} of captured graph {} differs: ", sequence == kOfAll ? "call" : "transfer",
                  place_of(mine.key), ordinal_of(mine.key));
  if (!theirs) return head + other + " has captured none there, which " + self + " has";
  if (sequence != kOfAll) {
    const exec::CalledTransfer own = transfer_of(mine.words), its = transfer_of(*theirs);
    return head + (source_of(sequence) == rank_ ? exec::transfers_text(self, own, other, its)
                                                : exec::transfers_text(other, its, self, own));
  }
  const auto own = diagnosis::read_call(mine.words), its = diagnosis::read_call(*theirs);
  std::optional<std::string> both;
  if (own && its) both = diagnosis::compare_text(self, *own, other, *its);
  return head + both.value_or(self + " and " + other + " have captured different calls");
}

}  // namespace tutti::engines::streams
