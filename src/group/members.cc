#include "src/group/members.h"

#include <map>
#include <set>

namespace tutti::group {

std::vector<MemberId> number_members(std::span<const MemberId> claims) {
  std::vector<MemberId> members(claims.begin(), claims.end());
  std::set<MemberId> taken;
  for (MemberId& member : members) {
    const bool has_one = member.number != MemberId::kNoNumber;
    if (has_one && !taken.insert(member).second) member.number = MemberId::kNoNumber;
  }
  std::map<ProcessId, uint32_t> next;  // of each process: the least number that may be free
  for (MemberId& member : members) {
    if (member.number != MemberId::kNoNumber) continue;
    uint32_t& number = next[member.process];
    while (taken.contains({member.process, number})) ++number;
    member.number = number++;
  }
  return members;
}

std::vector<MemberId> placeholder_members(size_t count) {
  std::vector<MemberId> members;
  for (uint32_t number = 0; number < count; ++number) members.push_back({{}, number});
  return members;
}

}  // namespace tutti::group
