#include "src/engines/cuda/call_watch.h"

#include <fmt/format.h>

#include "src/base/clock.h"

namespace tutti::engines::cuda {
namespace {

/// The number of the last call that a rank has made on device memory; 0: none.
uint32_t last_call_of(const exec::ArenaView& arena) {
  return static_cast<uint32_t>(arena.device().call.value.load(std::memory_order_acquire) >> 32);
}

uint32_t last_host_call_of(const exec::ArenaView& arena) {
  return static_cast<uint32_t>(arena.counter(0).call.load(std::memory_order_acquire) >> 32);
}

bool has_made(const exec::ArenaView& arena, uint64_t number) {
  return static_cast<int32_t>(last_call_of(arena) - static_cast<uint32_t>(number)) >= 0;
}

std::string call_text(uint32_t number) {
  return number == 0 ? "none" : "call " + std::to_string(number);
}

}  // namespace

uint64_t CallWatch::queue(const trace::Label& label) {
  return options_.recorder == nullptr ? 0 : options_.recorder->queue(label);
}

void CallWatch::begin(const Watched& call, uint64_t now_ns) {
  if (place_ == call.place) return;
  place_ = call.place;
  since_ns_ = now_ns;
  report_at_ns_ = options_.slow_ns == kNoDeadline ? kNoDeadline : now_ns + options_.slow_ns;
  if (options_.recorder == nullptr) return;
  const bool has_number = call.number != 0;
  options_.recorder->begin_queued(call.ticket, call.label,
                                  static_cast<uint32_t>(has_number ? call.number : call.place),
                                  has_number ? trace::Series::kDevice : trace::Series::kTransfers);
}

void CallWatch::look(const Watched& call, std::optional<int> late) {
  constexpr uint64_t kLongNs = 10'000'000;  // less than that is nobody's concern
  const uint64_t now_ns = monotonic_ns();
  begin(call, now_ns);
  const uint64_t waited_ns = now_ns - since_ns_;
  if (!late || waited_ns < kLongNs) return;
  if (options_.recorder != nullptr) {
    options_.recorder->waits_for(static_cast<uint32_t>(*late), 0, 0);
  }
  if (now_ns < report_at_ns_) return;
  report_at_ns_ = now_ns + waited_ns;  // ever more rarely
  const std::string which = call.number == 0 ? "" : fmt::format(", call {}", call.number);
  options_.report(
      fmt::format("{}{} on device memory has waited in its stream on {} for {:.1f} s: {}",
                  call.what, which, options_.name_of(options_.rank),
                  static_cast<double>(waited_ns) * 1e-9, reason(call.number, find_culprit(*late))));
}

void CallWatch::over(const Watched& call, bool ok) {
  begin(call, monotonic_ns());
  if (options_.recorder != nullptr) options_.recorder->conclude(ok);
}

// Counters rise alike on all ranks, so the lowest is that of the rank that is furthest behind; of
// several, that of the rank that has made the fewest calls.
int CallWatch::find_culprit(int late) const {
  const auto behind = [&](size_t one, size_t other) {
    const auto at = [&](size_t rank) {
      const exec::DevicePage& page = options_.arenas[rank].device();
      uint64_t progress = 0;
      for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) progress += page.progress_of(lane);
      return progress;
    };
    if (at(one) != at(other)) return at(one) < at(other);
    const uint32_t calls = last_call_of(options_.arenas[one]);
    return static_cast<int32_t>(calls - last_call_of(options_.arenas[other])) < 0;
  };
  auto culprit = static_cast<size_t>(late);
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    if (static_cast<int>(rank) != options_.rank && behind(rank, culprit)) culprit = rank;
  }
  return static_cast<int>(culprit);
}

std::string CallWatch::reason(uint64_t number, int late) const {
  std::string text = "it waits for " + story_of(late, number);
  std::string separator = "; it has not been made either by rank ";
  for (size_t rank = 0; number != 0 && rank < options_.arenas.size(); ++rank) {
    const bool told = static_cast<int>(rank) == options_.rank || static_cast<int>(rank) == late;
    if (told || has_made(options_.arenas[rank], number)) continue;
    text += separator + std::to_string(rank);
    separator = ", ";
  }
  return text;
}

std::string CallWatch::story_of(int rank, uint64_t number) const {
  const exec::ArenaView& arena = options_.arenas[static_cast<size_t>(rank)];
  const std::string name = options_.name_of(rank);
  if (number == 0) {
    return name + ", which has not come so far: its last call of all ranks on device memory is " +
           call_text(last_call_of(arena)) + ", its last on the host " +
           call_text(last_host_call_of(arena));
  }
  if (has_made(arena, number)) {
    return name +
           ", which has made that call: its stream has not come so far (work before it, another "
           "rank, or its device)";
  }
  return name + ", which has not made that call: its last on device memory is " +
         call_text(last_call_of(arena)) + ", its last on the host " +
         call_text(last_host_call_of(arena));
}

}  // namespace tutti::engines::cuda
