// What candidates cost in a group: the price of each level by its link model, from costs that are
// counted once for each algorithm and parameters.
//
// Owns: the counted costs. Threads: one at a time. Errors: none; where counting would take long (a
// group of more than kMostCounted ranks) the declared cost counts as one of the slowest level.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/group/view.h"
#include "src/select/link_model.h"

namespace tutti::select {

class LevelPrices {
 public:
  static constexpr int kMostCounted = 256;

  /// Of one kind of link, whatever the group.
  explicit LevelPrices(const LinkModel& link) : models_{link} {}
  /// `cores`: of every host.
  LevelPrices(group::GroupPointer group, int cores);

  /// Nanoseconds of one call. `cost` is what the algorithm declares.
  double price(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters,
               const schedule::Cost& cost, double count_bytes);
  /// The cost that the algorithm declares, asked for once: it may have to be counted. Calls of one
  /// LevelPrices that mean the same tree share it.
  const schedule::Cost& cost_of(const schedule::Algorithm& algorithm,
                                const schedule::Parameters& parameters);
  /// The slowest kind of link that two members have.
  const LinkModel& slowest() const { return models_.back(); }

 private:
  using Key = std::tuple<schedule::Collective, std::string_view, int, int, int, schedule::Fold,
                         const schedule::NodeTree*>;

  static Key key_of(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters);

  const std::vector<schedule::LevelCost>& costs_of(const schedule::Algorithm& algorithm,
                                                   const schedule::Parameters& parameters);

  group::GroupPointer group_;      // null: of one kind of link
  std::vector<LinkModel> models_;  // by kind: mapped, stream; those that members have
  std::map<Key, std::vector<schedule::LevelCost>> counted_;
  std::map<Key, schedule::Cost> declared_;
};

}  // namespace tutti::select
