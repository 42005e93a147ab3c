// Members of tests are told apart by their numbers: all live in one process that stands for none.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/member_id.h"

namespace tutti::consensus {

inline MemberId numbered(uint64_t number) { return {{}, static_cast<uint32_t>(number)}; }

inline std::vector<MemberId> numbered(const std::vector<uint32_t>& numbers) {
  std::vector<MemberId> members;
  for (const uint32_t number : numbers) members.push_back(numbered(uint64_t{number}));
  return members;
}

inline std::vector<uint32_t> numbers_of(const std::vector<MemberId>& members) {
  std::vector<uint32_t> numbers;
  for (const MemberId& member : members) numbers.push_back(member.number);
  return numbers;
}

}  // namespace tutti::consensus
