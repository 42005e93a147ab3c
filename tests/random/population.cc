#include "tests/random/population.h"

#include <algorithm>
#include <utility>

namespace tutti::random_calls {
namespace {

// Ordinary memory of another process of this host is reached if the kernel permits it.
bool may_be_ordinary(const Job& job, const Limits& limits) {
  return limits.single_copies || job.network == Network::kTcp || job.shape.process_count() == 1;
}

}  // namespace

Population::Population(Job& job, testing_support::Dice& dice, const Limits& limits)
    : job_(job),
      dice_(dice),
      may_be_ordinary_(may_be_ordinary(job, limits)),
      all_registered_(limits.direct) {
  several_ = !limits.one_communicator && !dice_.one_in(5);
  add(Origin::kId, Communicator::of_all(job_.ranks()).members);
}

std::vector<Change> Population::draw_changes() {
  constexpr size_t kMost = 2;
  std::vector<Change> changes;
  while (several_ && changes.size() < kMost && dice_.below(5) < 2) {
    // The more there are the likelier one ends; never the first.
    const bool ends = dice_.below(4) + 1 < alive_.size();
    if (!ends) {
      changes.push_back(draw_making());
      continue;
    }
    const auto ended = alive_.begin() + 1 + static_cast<ptrdiff_t>(dice_.below(alive_.size() - 1));
    changes.push_back({.from = *ended});
    alive_.erase(ended);
  }
  return changes;
}

uint32_t Population::pick(bool with_windows) {
  const uint32_t picked = dice_.pick(alive_);
  return with_windows && job_.communicators[picked].windows == 0 ? 0 : picked;
}

Change Population::draw_making() {
  switch (dice_.below(6)) {
    case 0:
      return draw_split();
    case 1:
      return draw_shrink();
    case 2:
      return draw_grow();
    case 3:
    case 4:
      if (job_.shape.process_count() == 1) {
        std::vector<int> members = job_.communicators[0].members;
        shuffle(members);
        return make(Origin::kAll, 0, std::move(members));
      }
      [[fallthrough]];
    default:
      return draw_ids();
  }
}

// All ranks or some, in any order.
Change Population::draw_ids() {
  std::vector<int> members = job_.communicators[0].members;
  shuffle(members);
  if (dice_.one_in(2)) members.resize(1 + dice_.below(members.size()));
  if (dice_.one_in(2)) std::ranges::sort(members);
  Change change = make(Origin::kId, 0, std::move(members));
  const bool two = job_.communicators[change.made[0]].ranks() > 1 && dice_.one_in(2);
  change.ids = two ? 2 : 1;
  return change;
}

// Up to three colours, and none for some ranks; keys of which some are equal.
Change Population::draw_split() {
  const uint32_t from = dice_.pick(alive_);
  const std::vector<int> parent = job_.communicators[from].members;
  const uint64_t colors = dice_.one_in(2) ? 1 : 2 + dice_.below(2);
  const bool all_have_one = !dice_.one_in(3);
  Change change{.origin = Origin::kSplit, .from = from};
  std::vector<std::vector<std::pair<int, int>>> chosen(colors);  // keys and members
  for (const int member : parent) {
    change.keys.push_back(static_cast<int>(dice_.below(parent.size())) - 2);
    const bool has_one = all_have_one || member == parent[0] || !dice_.one_in(4);
    if (has_one) chosen[dice_.below(colors)].emplace_back(change.keys.back(), member);
  }
  for (auto& of_color : chosen) {
    if (of_color.empty()) continue;
    const auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::ranges::stable_sort(of_color, by_key);  // equal keys: in the parent's order
    std::vector<int> members;
    for (const auto& [key, member] : of_color) members.push_back(member);
    change.made.push_back(add(Origin::kSplit, std::move(members)));
  }
  return change;
}

Change Population::draw_shrink() {
  const uint32_t from = pick_of_size(2, job_.ranks());
  std::vector<int> members = job_.communicators[from].members;
  if (members.size() == 1) return draw_split();
  const uint64_t excluded = dice_.one_in(2) ? 1 : 1 + dice_.below(members.size() - 1);
  for (uint64_t i = 0; i < excluded; ++i) {
    members.erase(members.begin() + static_cast<ptrdiff_t>(dice_.below(members.size())));
  }
  return make(Origin::kShrink, from, std::move(members));
}

Change Population::draw_grow() {
  const uint32_t from = pick_of_size(1, job_.ranks() - 1);
  const Communicator& parent = job_.communicators[from];
  std::vector<int> others;
  for (const int rank : job_.communicators[0].members) {
    if (parent.rank_of(rank) < 0) others.push_back(rank);
  }
  if (others.empty()) return draw_ids();
  shuffle(others);
  if (dice_.one_in(2)) others.resize(1 + dice_.below(others.size()));
  std::vector<int> members = parent.members;
  members.insert(members.end(), others.begin(), others.end());
  return make(Origin::kGrow, from, std::move(members));
}

uint32_t Population::pick_of_size(int least, int most) {
  std::vector<uint32_t> fitting;
  for (const uint32_t one : alive_) {
    const int ranks = job_.communicators[one].ranks();
    if (ranks >= least && ranks <= most) fitting.push_back(one);
  }
  return fitting.empty() ? 0 : dice_.pick(fitting);
}

Change Population::make(Origin origin, uint32_t from, std::vector<int> members) {
  return {.origin = origin, .from = from, .made = {add(origin, std::move(members))}};
}

uint32_t Population::add(Origin origin, std::vector<int> members) {
  const auto index = static_cast<uint32_t>(job_.communicators.size());
  Communicator made{.origin = origin, .members = std::move(members)};
  // Of dice of their own, so that what else a seed means stays.
  testing_support::Dice own(testing_support::mix(job_.seed, (job_.number << 16) + index));
  const auto mode = static_cast<Mode>(own.below(kModes));
  if (origin != Origin::kAll) made.mode = mode;
  made.ending = static_cast<Ending>(own.below(kEndings));
  made.registered = job_.has_regions && (dice_.one_in(2) || all_registered_);
  made.windows = 1 + static_cast<uint32_t>(dice_.below(2));
  if (index > 0 && dice_.one_in(2)) made.windows = 0;  // they take much memory
  made.ordinary_windows = dice_.one_in(2) && may_be_ordinary_;
  job_.communicators.push_back(std::move(made));
  alive_.push_back(index);
  return index;
}

void Population::shuffle(std::vector<int>& members) {
  for (size_t left = members.size(); left > 1; --left) {
    std::swap(members[left - 1], members[dice_.below(left)]);
  }
}

}  // namespace tutti::random_calls
