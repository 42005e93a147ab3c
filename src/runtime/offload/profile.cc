#include "src/runtime/offload/profile.h"

#include <algorithm>

#include "src/runtime/index.h"

namespace tutti::runtime::offload {
namespace {

/// Neighbours together, so that there are few enough for a plan; `of` of them each.
std::vector<OffloadItem> joined(const std::vector<OffloadItem>& items, size_t of) {
  std::vector<OffloadItem> groups;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i % of == 0) groups.emplace_back();
    groups.back().bytes += items[i].bytes;
    groups.back().forward += items[i].forward;
    groups.back().backward += items[i].backward;
  }
  return groups;
}

Nanoseconds nanoseconds(StepProfile::Clock::duration time) {
  return Nanoseconds(std::max<int64_t>(0, std::chrono::nanoseconds(time).count()));
}

}  // namespace

bool StepProfile::packed(Bytes bytes, Clock::duration waited) {
  const Clock::time_point now = Clock::now();
  OffloadItem item;
  item.bytes = bytes;
  // The wait for the disk is no work that could hide it.
  if (!items_.empty()) item.forward = nanoseconds(now - last_ - waited);
  last_ = now;
  items_.push_back(item);
  return planned_ < 0 || std::ssize(items_) <= planned_;
}

void StepProfile::unpacked(int64_t number) {
  const Clock::time_point now = Clock::now();
  // The work behind a storage lasts until the next one is asked for.
  if (last_used_ >= 0 && last_used_ < std::ssize(items_)) {
    items_[at(last_used_)].backward += nanoseconds(now - last_);
  }
  last_ = now;
  last_used_ = number;
}

void StepProfile::moved(bool is_write, Bytes bytes, Clock::time_point begun,
                        Clock::time_point ended) {
  DiskTraffic& lane = is_write ? writes_ : reads_;
  const Clock::time_point begin = std::min(std::max(begun, lane.busy_until), ended);
  lane.busy_until = std::max(ended, lane.busy_until);
  lane.bytes += double(bytes.value);
  lane.seconds += std::chrono::duration<double>(ended - begin).count();
}

void StepProfile::end_step(Bytes budget) {
  constexpr size_t kMostGroups = 128;
  const size_t of = (items_.size() + kMostGroups - 1) / kMostGroups;
  const auto rate = [](const DiskTraffic& lane, const DiskTraffic& other) {
    const DiskTraffic& known = lane.bytes > 0 ? lane : other;
    return known.bytes / std::max(known.seconds, 1e-9);
  };
  if (!items_.empty() && writes_.bytes > 0) {
    const OffloadRates rates{rate(writes_, reads_), rate(reads_, writes_)};
    try {
      const OffloadPlan plan = plan_offload(joined(items_, of), rates, budget, slack_);
      planned_ = int(std::min(items_.size(), size_t(plan.offloaded) * of));
    } catch (const Error&) {
      planned_ = -1;  // nothing fits by the plan: all goes, and the budget makes the step wait
    }
  }
  items_.clear();
  last_used_ = -1;
  // Old measurements count half at each step.
  for (DiskTraffic* lane : {&writes_, &reads_}) {
    lane->bytes /= 2;
    lane->seconds /= 2;
  }
}

}  // namespace tutti::runtime::offload
