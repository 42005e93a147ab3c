// The parts of CudaDeviceRank that compare what ranks call.
#include <utility>

#include "src/engines/cuda/device_rank.h"
#include "src/exec/pairs.h"

namespace tutti::engines::cuda {

Status CudaDeviceRank::differ(Difference found) {
  give_up(found.status, {found.peer, options_.rank});
  return std::move(found.status);
}

Status CudaDeviceRank::announce(const exec::StreamedTransfers& call) {
  std::optional<schedule::Collective> part_of;
  if (call.described) {
    part_of = call.described->collective;
    announce(call.call.signature, *call.described);
    if (std::optional<Difference> found = find_difference(number_)) {
      return differ(*std::move(found));
    }
  }
  if (Status own = exec::check_own_transfers(call.transfers, options_.rank); !own.ok()) {
    give_up(own, {options_.rank, -1});
    return own;
  }
  std::optional<exec::TransferBook::Dispute> found;
  {
    const std::lock_guard lock(mutex_);
    found = book_.announce(call.transfers, {.part_of = part_of});
  }
  return found ? differ({std::move(found->status), found->peer}) : Status();
}

// The host's lanes are not told of a peer that fails because of this: the sentry looks.
Status CudaDeviceRank::declare(uint32_t signature, const diagnosis::DescribedCall& described) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  announce(signature, described);
  {
    const std::lock_guard lock(mutex_);
    has_declared_ = awaits_peers_ = true;
  }
  std::optional<Difference> found = find_difference(number_);
  Sentry::get().wake();
  return found ? differ(*std::move(found)) : Status();
}

Status CudaDeviceRank::declare(std::span<const exec::Transfer> transfers) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  std::optional<exec::TransferBook::Dispute> found;
  {
    const std::lock_guard lock(mutex_);
    found = book_.announce(transfers, {.by_host = true});
    declared_.assign(transfers.begin(), transfers.end());
    has_declared_ = awaits_peers_ = true;
  }
  Sentry::get().wake();
  return found ? differ({std::move(found->status), found->peer}) : Status();
}

// Peers that call something else have failed by then, or will; this rank finds it as well.
bool CudaDeviceRank::awaits_peers() {
  const std::lock_guard lock(mutex_);
  if (!awaits_peers_ || !options_.failure().ok()) return false;
  awaits_peers_ = book_.find_late(declared_).has_value();
  for (const exec::ArenaView& arena : options_.arenas) {
    const uint64_t last = arena.device().call.value.load(std::memory_order_acquire) >> 32;
    const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(last - number_));
    if (ahead < 0) awaits_peers_ = true;
  }
  if (awaits_peers_) return true;
  if (auto found = find_recent_difference()) {
    give_up(std::move(found->status), {found->peer, options_.rank});
  }
  return false;
}

// The rank that is second to write its call finds the first one's: each writes before it looks.
void CudaDeviceRank::announce(uint32_t signature, const diagnosis::DescribedCall& described) {
  const std::lock_guard lock(mutex_);
  ++number_;
  const auto number = static_cast<uint32_t>(number_);
  const uint64_t word = uint64_t{number} << 32 | signature;
  log_.begin(number, described);
  mine().device_recent(number).store(word, std::memory_order_seq_cst);
  mine().device().call.value.store(word, std::memory_order_seq_cst);
}

std::optional<CudaDeviceRank::Difference> CudaDeviceRank::find_difference(uint64_t number) const {
  for (size_t peer = 0; peer < options_.arenas.size(); ++peer) {
    if (peer == rank_) continue;
    Status status = compare(peer, static_cast<uint32_t>(number));
    if (!status.ok()) return Difference{std::move(status), static_cast<int>(peer)};
  }
  return std::nullopt;
}

Status CudaDeviceRank::compare(size_t peer, uint32_t number) const {
  const uint64_t word = mine().device_recent(number).load(std::memory_order_acquire);
  const exec::ArenaView& other = options_.arenas[peer];
  const uint64_t last = other.device().call.value.load(std::memory_order_seq_cst);
  const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(last >> 32) - number);
  if (ahead < 0) return {};  // it will compare
  const uint64_t theirs = other.device_recent(number).load(std::memory_order_acquire);
  if (theirs == word || theirs >> 32 != number) return {};
  const auto own_call = diagnosis::CallLog::find(mine().device_log(), number);
  const auto its_call = diagnosis::CallLog::find(other.device_log(), number);
  std::optional<std::string> difference;
  if (own_call && its_call) {
    difference = diagnosis::compare_text(options_.name_of(options_.rank), *own_call,
                                         options_.name_of(static_cast<int>(peer)), *its_call);
  }
  return Status::invalid_usage("call " + std::to_string(number) + " on device memory differs: " +
                               difference.value_or(options_.name_of(options_.rank) + " and " +
                                                   options_.name_of(static_cast<int>(peer)) +
                                                   " make different calls"));
}

// Of the calls that streams may not be past, and of some before them, whose streams peers may have
// let go on.
std::optional<CudaDeviceRank::Difference> CudaDeviceRank::find_recent_difference() const {
  constexpr uint64_t kMost = 64;
  for (uint64_t number = number_ > kMost ? number_ - kMost + 1 : 1; number <= number_; ++number) {
    if (std::optional<Difference> found = find_difference(number)) return found;
  }
  if (auto found = book_.find_recent()) return Difference{std::move(found->status), found->peer};
  const auto run = captured_->find_recent_difference();
  return run ? std::optional(Difference{run->status, run->cause.rank}) : std::nullopt;
}

}  // namespace tutti::engines::cuda
