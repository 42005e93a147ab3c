#include "src/consensus/rules.h"

#include <algorithm>

namespace tutti::consensus {
namespace {

bool majority(const std::vector<MemberId>& members, const std::set<MemberId>& answered) {
  const MemberId least = *std::min_element(members.begin(), members.end());
  size_t count = 0;
  for (const MemberId member : members) count += answered.count(member);
  if (2 * count == members.size()) return answered.count(least) > 0;
  return 2 * count > members.size();
}

}  // namespace

bool Rules::decides(const Terms& terms, const Wish& wish, const std::set<MemberId>& answered,
                    const std::set<MemberId>& dead) const {
  if (answered.size() < wish.at_least) return false;
  if (wish.who == Wish::Leave::kNamed) {
    for (const MemberId member : staying(wish, terms.previous)) {
      if (answered.count(member) == 0) return false;
    }
    return true;
  }
  if (terms.judge == Judge::kMajority) return majority(terms.previous.members, answered);
  for (const MemberId member : terms.previous.members) {
    if (answered.count(member) == 0 && dead.count(member) == 0) return false;
  }
  return true;
}

bool Rules::is_current(const Terms& terms, const Digest& view, const EditMessage& message) const {
  if (message.epoch != terms.previous.epoch || message.view != view) return false;
  return message.kind == EditMessage::Subject::kHere || terms.previous.holds(message.from);
}

std::optional<View> Rules::bound_to(
    const std::map<MemberId, std::optional<ViewProposal>>& promises) const {
  const ViewProposal* highest = nullptr;
  for (const auto& [member, accepted] : promises) {
    if (accepted && (highest == nullptr || highest->ballot < accepted->ballot)) {
      highest = &*accepted;
    }
  }
  if (highest == nullptr) return std::nullopt;
  return highest->view;
}

uint64_t Rules::rival_delay(const Terms& terms, uint32_t tries, Prng& random) const {
  constexpr uint32_t kMostDoublings = 5;
  const uint64_t widest = terms.retry << std::min(tries, kMostDoublings);
  return terms.retry + random.below(widest);
}

}  // namespace tutti::consensus
