#include "tests/software_device/device/copies.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

struct Piece {
  char* target;
  const char* source;
  size_t bytes;
};

/// The process has so many engines that copies take turns at.
class Engines {
 public:
  void take() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [this] { return busy_ < settings().engines; });
    ++busy_;
  }
  void give_back() {
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    given_back_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  long busy_ = 0;
};

Engines& engines() {
  static Engines* const all = new Engines;
  return *all;
}

template <class Word>
bool copy_word(const Piece& piece) {
  const auto both =
      reinterpret_cast<uintptr_t>(piece.target) | reinterpret_cast<uintptr_t>(piece.source);
  if (piece.bytes != sizeof(Word) || both % sizeof(Word) != 0) return false;
  const Word value = __atomic_load_n(reinterpret_cast<const Word*>(piece.source), __ATOMIC_ACQUIRE);
  __atomic_store_n(reinterpret_cast<Word*>(piece.target), value, __ATOMIC_RELEASE);
  return true;
}

/// An aligned word is seen whole: flags are moved by copies, too.
void copy_piece(const Piece& piece) {
  if (copy_word<uint32_t>(piece) || copy_word<uint64_t>(piece)) return;
  std::memmove(piece.target, piece.source, piece.bytes);
}

void cut(const Range& target, const Range& source, size_t bytes, std::vector<Piece>& pieces) {
  size_t t = 0, s = 0, in_target = 0, in_source = 0;
  const auto most = static_cast<size_t>(settings().piece_bytes);
  while (bytes > 0) {
    const Segment& to = target.segments[t];
    const Segment& from = source.segments[s];
    const size_t part = std::min({to.bytes - in_target, from.bytes - in_source, bytes, most});
    pieces.push_back({to.data + in_target, from.data + in_source, part});
    bytes -= part;
    in_target += part;
    in_source += part;
    if (in_target == to.bytes) ++t, in_target = 0;
    if (in_source == from.bytes) ++s, in_source = 0;
  }
}

/// A copy of one word hands on clocks, as a write of a word does.
void tell_checker(const Range& target, const Range& source, size_t bytes, bool in_batch) {
  Agent* agent = running_agent();
  if (agent == nullptr) return;
  const bool is_word = bytes == 4 || bytes == 8;
  for (const Segment& from : source.segments) {
    if (from.place.object == 0) continue;
    if (is_word) {
      agent->learn(published(from.place));
    } else {
      check_access(*agent, from.place, from.bytes, false);
    }
  }
  for (const Segment& to : target.segments) {
    if (to.place.object == 0) continue;
    if (is_word) {
      publish(to.place, in_batch ? agent->clock_before() : agent->clock());
    } else {
      check_access(*agent, to.place, to.bytes, true);
    }
  }
}

Range source_of(const Copy& copy, int device) {
  if (copy.staged == nullptr) return addresses().locate(copy.source, copy.bytes, device);
  Range range;
  range.valid = true;
  range.segments.push_back({copy.staged->data(), copy.bytes, {}, nullptr});
  return range;
}

void run_copies(const std::vector<Copy>& copies, int device) {
  std::vector<Piece> pieces;
  std::vector<Range> held;  // the memory lives until the end
  for (const Copy& copy : copies) {
    if (copy.bytes == 0) continue;
    Range target = addresses().locate(copy.target, copy.bytes, device);
    Range source = source_of(copy, device);
    if (!target.valid) return fail_operation("target of a copy", copy.target, copy.bytes);
    if (!source.valid) return fail_operation("source of a copy", copy.source, copy.bytes);
    count(&SoftdevStatistics::copies, 1);
    count(&SoftdevStatistics::copy_bytes, static_cast<int64_t>(copy.bytes));
    cut(target, source, copy.bytes, pieces);
    tell_checker(target, source, copy.bytes, copies.size() > 1);
    held.push_back(std::move(target));
    held.push_back(std::move(source));
  }
  if (settings().shuffle != 0) std::shuffle(pieces.begin(), pieces.end(), dice());
  engines().take();
  skew();
  const bool stalls = settings().skew_us > 0 && pieces.size() > 1 && dice()() % 2 == 0;
  const size_t stalls_at = stalls ? 1 + dice()() % (pieces.size() - 1) : pieces.size();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i == stalls_at) stall();
    copy_piece(pieces[i]);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  engines().give_back();
}

/// Reads the source now. False: it is no memory at all.
bool stage(Copy& copy) {
  copy.staged = std::make_shared<std::vector<char>>(copy.bytes);
  const iovec to{copy.staged->data(), copy.bytes};
  const iovec from{reinterpret_cast<void*>(copy.source), copy.bytes};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(copy.bytes);
}

}  // namespace

CUresult submit_copies(Stream& stream, std::vector<Copy> copies) {
  const int device = stream.context->device;
  const bool captured = is_captured(stream);
  bool returns_when_done = false;
  for (Copy& copy : copies) {
    if (copy.bytes == 0) continue;
    const Range target = addresses().locate(copy.target, copy.bytes, device);
    const Range source = addresses().locate(copy.source, copy.bytes, device);
    if (!target.valid || !source.valid) return kErrorInvalidValue;
    if (captured) continue;
    const bool read_now = (source.pageable && target.on_device) ||
                          (!source.on_device && copy.order != kSourceInStreamOrder);
    if (read_now && !stage(copy)) return kErrorInvalidValue;
    if (target.pageable && source.on_device) returns_when_done = true;
  }
  const auto shared = std::make_shared<const std::vector<Copy>>(std::move(copies));
  const CUresult result = submit(stream, once([shared, device] { run_copies(*shared, device); }));
  return result == kSuccess && returns_when_done ? drain(stream) : result;
}

CUresult submit_fill(Stream& stream, uintptr_t target, unsigned char value, size_t bytes) {
  const int device = stream.context->device;
  const Range range = addresses().locate(target, bytes, device);
  if (!range.valid || range.pageable) return kErrorInvalidValue;
  count(&SoftdevStatistics::memsets, 1);
  return submit(stream, once([=] {
                  const Range now = addresses().locate(target, bytes, device);
                  if (!now.valid) return fail_operation("memset", target, bytes);
                  for (const Segment& segment : now.segments) {
                    if (Agent* agent = running_agent())
                      check_access(*agent, segment.place, segment.bytes, true);
                    std::memset(segment.data, value, segment.bytes);
                  }
                }));
}

}  // namespace softdev
