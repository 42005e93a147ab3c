#include "src/consensus/wish.h"

#include <algorithm>

#include "src/consensus/bytes.h"

namespace tutti::consensus {
namespace {

bool among(const std::vector<MemberId>& members, MemberId member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

Status check_members(const std::vector<MemberId>& named, const char* what) {
  std::vector<MemberId> sorted = named;
  std::erase(sorted, kAnyNewcomer);
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return {};
  return Status::invalid_argument(std::string("an edit ") + what + " a member twice");
}

Status check_order(const Wish& wish, const View& previous) {
  if (wish.order.empty()) return {};
  if (Status status = check_members(wish.order, "lists"); !status.ok()) return status;
  size_t new_ones = 0;
  for (const MemberId member : wish.order) {
    if (among(wish.leave, member)) {
      return Status::invalid_argument(
          "an edit lists a member that leaves as one of the next epoch");
    }
    if (!previous.holds(member)) ++new_ones;
  }
  for (const MemberId member : previous.members) {
    if (among(wish.order, member) || among(wish.leave, member)) continue;
    return Status::invalid_argument(
        "an edit with an ordered list must say of every present member where it is or that it "
        "leaves");
  }
  if (new_ones == wish.join) return {};
  return Status::invalid_argument("an edit lists " + std::to_string(new_ones) +
                                  " members that are not of the group and says that " +
                                  std::to_string(wish.join) + " join");
}

}  // namespace

std::string Wish::encode() const {
  ByteWriter out;
  out.number(static_cast<uint64_t>(who));
  out.members(leave);
  out.number(join);
  out.members(order);
  out.number(at_least);
  return std::move(out).bytes();
}

std::string Wish::describe() const {
  std::string text = "remove whoever is dead";
  if (who == Leave::kNamed) text = "remove " + std::to_string(leave.size()) + " named members";
  if (join > 0) text += ", " + std::to_string(join) + (join == 1 ? " joins" : " join");
  if (!order.empty()) text += ", ranks by a list";
  if (at_least > 0) text += ", at least " + std::to_string(at_least) + " answers";
  return text;
}

Status check(const Wish& wish, const View& previous) {
  if (wish.who == Wish::Leave::kDead && (!wish.leave.empty() || !wish.order.empty())) {
    return Status::invalid_argument(
        "an edit that removes whoever is dead cannot name members, too");
  }
  if (Status status = check_members(wish.leave, "removes"); !status.ok()) return status;
  for (const MemberId member : wish.leave) {
    if (previous.holds(member)) continue;
    return Status::invalid_argument("an edit removes a member that is not of the group");
  }
  if (wish.leave.size() == previous.members.size()) {
    return Status::invalid_argument("an edit removes every member of the group");
  }
  if (wish.at_least > previous.members.size()) {
    return Status::invalid_argument("an edit asks for " + std::to_string(wish.at_least) +
                                    " answers and the group has " +
                                    std::to_string(previous.members.size()) + " members");
  }
  return check_order(wish, previous);
}

std::vector<MemberId> staying(const Wish& wish, const View& previous) {
  std::vector<MemberId> stay;
  for (const MemberId member : previous.members) {
    if (!among(wish.leave, member)) stay.push_back(member);
  }
  return stay;
}

}  // namespace tutti::consensus
