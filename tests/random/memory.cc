#include "tests/random/memory.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/random/device_mirror.h"
#include "tests/random/pattern.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::Expected;

constexpr uint64_t kAlignment = 64;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kPoison{0xee};
constexpr uint64_t kPoisonWord = 0xeeeeeeeeeeeeeeee;
constexpr std::byte kGone{0xdd};

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string at_element(uint64_t index) { return " at element " + std::to_string(index); }

}  // namespace

std::byte* Region::take(uint64_t bytes) {
  std::byte* taken = memory_ + used_;
  used_ += aligned(bytes);
  return used_ <= bytes_ ? taken : nullptr;
}

Block::Block(uint64_t bytes, uint64_t shift, Region* region) : bytes_(bytes) {
  const uint64_t all = aligned(2 * kGuardBytes + shift + bytes) + kAlignment;
  std::byte* base = region == nullptr ? nullptr : region->take(all);
  if (base == nullptr) {
    own_ = std::make_unique_for_overwrite<std::byte[]>(all);
    base = own_.get();
  }
  const auto address = reinterpret_cast<uintptr_t>(base);
  data_ = base + (aligned(address) - address) + kGuardBytes + shift;
  std::memset(data_ - kGuardBytes, static_cast<int>(kGuard), kGuardBytes);
  std::memset(data_ + bytes_, static_cast<int>(kGuard), kGuardBytes);
  std::memset(data_, static_cast<int>(kPoison), bytes_);
}

void Block::overwrite() { std::memset(data_, static_cast<int>(kGone), bytes_); }

std::string Block::damage() const {
  for (uint64_t i = 0; i < kGuardBytes; ++i) {
    if (data_[bytes_ + i] != kGuard) {
      return "wrote " + std::to_string(i) + " bytes behind a buffer of " + std::to_string(bytes_);
    }
    if (data_[i - kGuardBytes] != kGuard) {
      return "wrote " + std::to_string(kGuardBytes - i) + " bytes before a buffer of " +
             std::to_string(bytes_);
    }
  }
  return "";
}

CallMemory::CallMemory(const Call& call, int rank, Regions* regions) : call_(call), rank_(rank) {
  forget_scalar();
  const bool allocated = call.allocated && !call.on_device && regions != nullptr;
  Region* send_region = allocated ? &regions->send : nullptr;
  Region* recv_region = allocated ? &regions->recv : nullptr;
  if (call.kind != Kind::kCollective) {
    make_transfers(send_region, recv_region);
    return;
  }
  const reference::Problem& p = call.problem;
  const uint64_t size = reference::size_of(p.type);
  const uint64_t in = reference::input_elements(p, rank) * size;
  const uint64_t out = reference::output_elements(p, rank) * size;
  const uint64_t part = reference::place_of(p, rank) * size;
  // Peers that read registered memory of a device find it at one place of all ranks.
  const int shifted = call.on_device && call.allocated ? 0 : rank;
  const uint64_t shift = testing_support::mix(call.seed, static_cast<uint64_t>(shifted)) % 8 * size;
  const bool has_input = reference::has_input(p, rank);
  const bool has_output = reference::has_output(p, rank);
  // The library ignores the pointer for a buffer that only the root has: null here.
  in_place_ = call.in_place && has_input && has_output;
  if (in_place_) {
    output_ = std::make_unique<Block>(std::max(in, out), shift, recv_region);
    send_ = recv_ = output_->data();
    const bool output_is_part = reference::output_is_part(p.collective);
    output_is_part ? recv_ += part : send_ += part;
  } else {
    if (has_output) output_ = std::make_unique<Block>(out, shift, recv_region);
    if (has_input) input_ = std::make_unique<Block>(in, shift, send_region);
    recv_ = has_output ? output_->data() : nullptr;
    send_ = has_input ? input_->data() : nullptr;
  }
  fill_input();
}

void CallMemory::move_to(DeviceMirror& device) {
  for (const TransferMemory& memory : transfers_) {
    on_device_.emplace_back(&memory.block, device.push(memory.block));
  }
  move_buffers([&](const Block& block) { return device.push(block); });
}

// Peers read buffers at one place of all ranks, whichever of them a rank has: in a call in place
// the input of a rank without output lies where the root's is, in its output.
void CallMemory::move_to_registered(DeviceMirror& device, size_t index) {
  constexpr uint64_t kRoom = DeviceMirror::kBytes / (2 * kMaxBatch);  // of a buffer
  for (const TransferMemory& memory : transfers_) {
    on_device_.emplace_back(&memory.block, device.push(memory.block));
  }
  move_buffers([&](const Block& block) {
    const bool second = call_.in_place || &block == output_.get();
    return device.push_at((2 * index + (second ? 1 : 0)) * kRoom, block);
  });
}

void CallMemory::move_buffers(const std::function<std::byte*(const Block&)>& push) {
  host_send_ = send_;
  host_recv_ = recv_;
  for (const Block* block : {input_.get(), output_.get()}) {
    if (block == nullptr) continue;
    std::byte* const begin = push(*block);
    on_device_.emplace_back(block, begin);
    const auto is_inside = [&](const std::byte* pointer) {
      return pointer >= block->data() && pointer <= block->data() + block->bytes();
    };
    const bool sends = block == input_.get() || in_place_;
    if (sends && is_inside(host_send_)) send_ = begin + (host_send_ - block->data());
    const bool receives = block == output_.get();
    if (receives && is_inside(host_recv_)) recv_ = begin + (host_recv_ - block->data());
  }
}

void CallMemory::move_back(DeviceMirror& device) {
  if (on_device_.empty()) return;
  for (const auto& [block, begin] : on_device_) device.pull(*block, begin);
  on_device_.clear();
  send_ = host_send_;
  recv_ = host_recv_;
}

std::byte* CallMemory::place_of(const TransferMemory& transfer) const {
  for (const auto& [block, begin] : on_device_) {
    if (block == &transfer.block) return begin;
  }
  return transfer.block.data();
}

void CallMemory::set_scalar() {
  reference::store(call_.problem.type, scalar_, call_.problem.scalars[static_cast<size_t>(rank_)]);
}

void CallMemory::forget_scalar() { std::memset(scalar_, static_cast<int>(kGone), sizeof scalar_); }

void CallMemory::make_transfers(Region* send_region, Region* recv_region) {
  for (size_t i = 0; i < call_.transfers.size(); ++i) {
    const Transfer& t = call_.transfers[i];
    const uint64_t size = reference::size_of(t.type);
    for (const bool is_send : {true, false}) {
      if ((is_send ? t.source : t.target) != rank_) continue;
      Region* region = is_send ? send_region : recv_region;
      TransferMemory memory{i, is_send, Block(t.count * size, i % 4 * size, region)};
      for (uint64_t k = 0; is_send && k < t.count; ++k) {
        reference::store(t.type, memory.block.data() + k * size, transfer_bits(call_, i, k));
      }
      transfers_.push_back(std::move(memory));
    }
  }
}

void CallMemory::fill_input() {
  const uint64_t elements = reference::input_elements(call_.problem, rank_);
  if (elements > 0) fill(const_cast<std::byte*>(send_), elements);
}

// The first period element by element, the rest as copies of it.
void CallMemory::fill(std::byte* at, uint64_t elements) const {
  const Pattern pattern(call_);
  const uint64_t size = reference::size_of(call_.problem.type);
  const uint64_t first = std::min(elements, Pattern::kPeriod);
  for (uint64_t i = 0; i < first; ++i) {
    reference::store(call_.problem.type, at + i * size, pattern.bits(rank_, i));
  }
  for (uint64_t done = first; done < elements;) {
    const uint64_t more = std::min(first, elements - done);
    std::memcpy(at + done * size, at, more * size);
    done += more;
  }
}

std::string CallMemory::check_transfers() {
  for (const TransferMemory& memory : transfers_) {
    const Transfer& t = call_.transfers[memory.ordinal];
    const std::string which = "transfer " + std::to_string(memory.ordinal);
    if (std::string damage = memory.block.damage(); !damage.empty()) return which + " " + damage;
    for (uint64_t k = 0; k < t.count; ++k) {
      const uint64_t got =
          reference::load(t.type, memory.block.data() + k * reference::size_of(t.type));
      const uint64_t wanted = transfer_bits(call_, memory.ordinal, k);
      if (got == wanted) continue;
      return which + (memory.is_send ? ": its source was changed" : "") + at_element(k) + ": " +
             reference::show(t.type, got) + " instead of " + reference::show(t.type, wanted);
    }
  }
  for (TransferMemory& memory : transfers_) memory.block.overwrite();
  return "";
}

std::string CallMemory::check_range(uint64_t begin, uint64_t end) const {
  const reference::Problem& p = call_.problem;
  const Pattern pattern(call_);
  const uint64_t size = reference::size_of(p.type);
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t got = reference::load(p.type, send_ + i * size);
    if (got == pattern.bits(rank_, i)) continue;
    return "the input was changed" + at_element(i) + " to " + reference::show(p.type, got);
  }
  return "";
}

// In place, where the output is a part of the input, only that part may be written.
std::string CallMemory::check_input() const {
  const reference::Problem& p = call_.problem;
  const uint64_t elements = reference::input_elements(p, rank_);
  if (input_ != nullptr) return check_range(0, elements);
  if (!in_place_ || !reference::output_is_part(p.collective)) return "";
  const uint64_t part = reference::place_of(p, rank_);
  if (std::string wrong = check_range(0, part); !wrong.empty()) return wrong;
  return check_range(part + reference::output_elements(p, rank_), elements);
}

// Checks that bytes between shares are as they were: the input that shares the buffer, or poison.
std::string CallMemory::check_gap(uint64_t index, uint64_t got) const {
  const reference::Problem& p = call_.problem;
  const bool shared = in_place_ && p.collective == reference::Collective::kAllToAllV;
  const uint64_t poison = reference::load(p.type, &kPoisonWord);
  const uint64_t wanted = shared ? Pattern(call_).bits(rank_, index) : poison;
  return got == wanted ? "" : "wrote between shares" + at_element(index);
}

std::string CallMemory::check_output(const std::byte* output) const {
  const reference::Problem& p = call_.problem;
  const Pattern pattern(call_);
  const reference::Input input = [&](int rank, uint64_t i) { return pattern.bits(rank, i); };
  const bool reduces = reference::reduces(p.collective);
  const uint64_t size = reference::size_of(p.type);
  const uint64_t elements = reference::output_elements(p, rank_);
  std::vector<std::optional<Expected>> known(reduces ? std::min(elements, Pattern::kPeriod) + 1
                                                     : 0);
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t got = reference::load(p.type, output + i * size);
    if (p.gap > 0 && reference::source_of(p, rank_, i).rank < 0) {
      if (std::string wrong = check_gap(i, got); !wrong.empty()) return wrong;
      continue;
    }
    Expected wanted;
    if (reduces) {
      // A whole period of the output is a whole period of the input, whatever its beginning.
      std::optional<Expected>& entry = known[i % Pattern::kPeriod];
      if (!entry) entry = reference::expected(p, input, rank_, i);
      wanted = *entry;
    } else {
      wanted = reference::expected(p, input, rank_, i);
    }
    if (reference::matches(p.type, wanted, got)) continue;
    return "wrong result" + at_element(i) + " of " + std::to_string(elements) + ": " +
           reference::show(p.type, got) + " instead of " + reference::show(p.type, wanted);
  }
  return "";
}

void CallMemory::overwrite() {
  if (output_ != nullptr) output_->overwrite();
  if (input_ != nullptr) input_->overwrite();
}

std::string CallMemory::check() {
  if (call_.kind != Kind::kCollective) return check_transfers();
  std::string wrong;
  const uint64_t out = reference::output_elements(call_.problem, rank_);
  const uint64_t out_bytes = out * reference::size_of(call_.problem.type);
  const bool at_once = call_.seed % 2 == 1;
  if (at_once && output_ != nullptr) {
    const auto copy = std::make_unique_for_overwrite<std::byte[]>(out_bytes);
    std::memcpy(copy.get(), recv_, out_bytes);
    overwrite();
    wrong = check_output(copy.get());
  } else {
    if (output_ != nullptr) wrong = check_output(recv_);
    if (wrong.empty()) wrong = check_input();
    overwrite();
  }
  for (const Block* block : {output_.get(), input_.get()}) {
    if (wrong.empty() && block != nullptr) wrong = block->damage();
  }
  return wrong;
}

}  // namespace tutti::random_calls
