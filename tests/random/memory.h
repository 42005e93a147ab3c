// The buffers of one call on one rank: filled before, checked after.
//
// Every buffer lies between guard bytes. After a call its buffers are overwritten, at once for half
// of the calls, because a peer that still reads them is as wrong as one that writes there.
// Owns:    the memory, unless it is a part of a region.
// Threads: one.
// Units:   bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/random/job.h"

namespace tutti::random_calls {

/// Memory from tuttiMemAlloc, handed out from the front; reset() takes all of it back.
class Region {
 public:
  Region() = default;
  Region(std::byte* memory, uint64_t bytes) : memory_(memory), bytes_(bytes) {}
  std::byte* take(uint64_t bytes);
  void reset() { used_ = 0; }

 private:
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t used_ = 0;
};

struct Regions {
  Region send;
  Region recv;
};

class Block {
 public:
  /// `shift` bytes away from the greatest alignment; `region` null: memory of its own.
  Block(uint64_t bytes, uint64_t shift, Region* region);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  /// With the guards.
  std::span<std::byte> whole() const {
    return {data_ - kGuardBytes, kGuardBytes + bytes_ + kGuardBytes};
  }
  void overwrite();
  /// "" if nobody wrote outside.
  std::string damage() const;

 private:
  static constexpr uint64_t kGuardBytes = 128;

  std::unique_ptr<std::byte[]> own_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// The arguments to pass for one transfer of a call.
struct TransferMemory {
  size_t ordinal = 0;
  bool is_send = false;
  Block block;
};

class DeviceMirror;

class CallMemory {
 public:
  /// `regions` null: ordinary memory.
  CallMemory(const Call& call, int rank, Regions* regions);

  const void* send() const { return send_; }
  void* recv() const { return recv_; }
  /// Of a call of pairs: this rank's part, in the order in which it must be issued.
  const std::vector<TransferMemory>& transfers() const { return transfers_; }

  /// The call is made on device memory: buffers are there from now on, and back before check().
  void move_to(DeviceMirror& device);
  /// The same into registered memory, as call `index` of a batch.
  void move_to_registered(DeviceMirror& device, size_t index);
  void move_back(DeviceMirror& device);
  /// Of a transfer, where it lies: on the host or the device.
  std::byte* place_of(const TransferMemory& transfer) const;

  /// Of a scaled sum: the memory of this rank's scalar, which is garbage unless it is set.
  void* scalar() { return scalar_; }
  void set_scalar();
  void forget_scalar();

  /// Returns a text that says what is wrong with the result, or "". The buffers are gone
  /// afterwards.
  std::string check();

 private:
  void move_buffers(const std::function<std::byte*(const Block&)>& push);
  void make_transfers(Region* send_region, Region* recv_region);
  void overwrite();
  void fill_input();
  void fill(std::byte* at, uint64_t elements) const;
  std::string check_transfers();
  std::string check_input() const;
  std::string check_output(const std::byte* output) const;
  std::string check_range(uint64_t begin, uint64_t end) const;
  std::string check_gap(uint64_t index, uint64_t got) const;

  const Call& call_;
  int rank_;
  bool in_place_ = false;
  std::unique_ptr<Block> input_;   // null where the call is in place, or the rank has none
  std::unique_ptr<Block> output_;  // null where the rank has none
  std::vector<TransferMemory> transfers_;
  alignas(8) std::byte scalar_[8];
  const std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  const std::byte* host_send_ = nullptr;  // while the call is on a device
  std::byte* host_recv_ = nullptr;
  std::vector<std::pair<const Block*, std::byte*>> on_device_;
};

}  // namespace tutti::random_calls
