// The numbers that ranks have for an engine that knows the ranks of its host alone: those come
// first, in their order, then all others.
//
// Threads: a value. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/diagnosis/loss.h"
#include "src/group/view.h"

namespace tutti::comm {

class HostNumbers {
 public:
  HostNumbers(const group::GroupView& group, int rank) : near_(group.near_ranks(rank).size()) {
    const auto near = group.near_ranks(rank);
    ranks_.assign(near.begin(), near.end());
    for (int other = 0; other < group.ranks(); ++other) {
      if (!group.near(rank, other)) ranks_.push_back(other);
    }
    numbers_.resize(ranks_.size());
    for (uint32_t number = 0; number < ranks_.size(); ++number) {
      numbers_[static_cast<size_t>(ranks_[number])] = number;
    }
  }

  /// How many are of this host.
  size_t near() const { return near_; }
  /// By number.
  const std::vector<int>& ranks() const { return ranks_; }
  /// By rank.
  const std::vector<uint32_t>& numbers() const { return numbers_; }
  int rank_of(int number) const {
    return number < 0 ? number : ranks_[static_cast<size_t>(number)];
  }
  int number_of(int rank) const {
    return rank < 0 ? rank : static_cast<int>(numbers_[static_cast<size_t>(rank)]);
  }
  diagnosis::Cause with_ranks(const diagnosis::Cause& cause) const {
    return {rank_of(cause.rank), rank_of(cause.witness)};
  }
  diagnosis::Cause with_numbers(const diagnosis::Cause& cause) const {
    return {number_of(cause.rank), number_of(cause.witness)};
  }

 private:
  size_t near_ = 0;
  std::vector<int> ranks_;
  std::vector<uint32_t> numbers_;
};

}  // namespace tutti::comm
