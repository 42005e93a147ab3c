#include "src/comm/edit_plan.h"

#include <algorithm>
#include <string>

namespace tutti::comm {
namespace {

Status check_rank(int rank, size_t ranks, const char* field) {
  if (rank >= 0 && static_cast<size_t>(rank) < ranks) return {};
  return Status::invalid_argument(std::string(field) + " has " + std::to_string(rank) +
                                  ", which is no rank of " + std::to_string(ranks));
}

Status read_order(const EditPlan& plan, const consensus::View& present, consensus::Wish& wish) {
  const size_t ranks = present.members.size();
  std::vector<bool> listed(ranks, false);
  uint32_t newcomers = 0;
  for (const int rank : plan.order) {
    if (rank == kNewcomer) {
      ++newcomers;
      wish.order.push_back(consensus::kAnyNewcomer);
      continue;
    }
    if (Status status = check_rank(rank, ranks, "order"); !status.ok()) return status;
    const auto at = static_cast<size_t>(rank);
    if (listed[at]) {
      return Status::invalid_argument("order has rank " + std::to_string(rank) + " twice");
    }
    listed[at] = true;
    wish.order.push_back(present.members[at]);
  }
  if (plan.newcomers != 0 && plan.newcomers != newcomers) {
    return Status::invalid_argument("order has " + std::to_string(newcomers) +
                                    " newcomers, and newcomers says " +
                                    std::to_string(plan.newcomers));
  }
  wish.join = newcomers;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!listed[rank]) wish.leave.push_back(present.members[rank]);
  }
  return {};
}

}  // namespace

Result<consensus::Wish> wish_of(const EditPlan& plan, const consensus::View& present) {
  consensus::Wish wish;
  wish.join = plan.newcomers;
  wish.at_least = plan.at_least;
  const bool names = !plan.removed.empty() || !plan.order.empty();
  if (plan.removes_dead && names) {
    return Status::invalid_argument(
        "an edit removes whoever is dead, or it names who leaves: not both");
  }
  if (!plan.removed.empty() && !plan.order.empty()) {
    return Status::invalid_argument(
        "order says already who leaves: a rank that it does not list; removed must be empty");
  }
  if (plan.removes_dead) return wish;
  wish.who = consensus::Wish::Leave::kNamed;
  for (const int rank : plan.removed) {
    Status status = check_rank(rank, present.members.size(), "removed");
    if (!status.ok()) return status;
    wish.leave.push_back(present.members[static_cast<size_t>(rank)]);
  }
  // Equal on all members, whatever order their callers chose.
  std::sort(wish.leave.begin(), wish.leave.end());
  if (!plan.order.empty()) {
    if (Status status = read_order(plan, present, wish); !status.ok()) return status;
  }
  if (Status status = consensus::check(wish, present); !status.ok()) return status;
  return wish;
}

}  // namespace tutti::comm
