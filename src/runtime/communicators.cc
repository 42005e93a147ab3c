#include "tutti/runtime/communicators.h"

#include "src/runtime/epoch.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

Communicators::Communicators(tuttiComm_t parent, int most_ctas)
    : parent_(parent), most_ctas_(most_ctas) {
  expect_success(tuttiCommCount(parent, &ranks_), parent, "tuttiCommCount");
  expect_success(tuttiCommUserRank(parent, &rank_), parent, "tuttiCommUserRank");
  epoch_ = epoch_of(parent);
}

Communicators::~Communicators() {
  for (size_t i = made_.size(); i-- > 0;) tuttiCommDestroy(made_[i]);
}

void Communicators::check(std::span<const RankSet> disjoint) const {
  expect_epoch(parent_, epoch_, "the cache of communicators");
  std::vector<bool> seen(static_cast<size_t>(ranks_), false);
  for (const RankSet& group : disjoint) {
    for (const int rank : group.ranks()) {
      require(rank < ranks_, "rank ", rank, " of group ", group.text(),
              " is not in a communicator of ", ranks_, " ranks");
      require(!seen[static_cast<size_t>(rank)], "rank ", rank,
              " is in two groups that are made together; ask for them one after the other");
      seen[static_cast<size_t>(rank)] = true;
    }
  }
}

tuttiComm_t Communicators::split(std::span<const RankSet> disjoint,
                                 const std::set<RankSet>& without) {
  int color = TUTTI_SPLIT_NOCOLOR, key = 0;
  bool anything = false;
  for (size_t i = 0; i < disjoint.size(); ++i) {
    if (without.contains(disjoint[i])) continue;
    anything = true;
    const int place = disjoint[i].place_of(rank_);
    if (place < 0) continue;
    color = static_cast<int>(i);
    key = place;
  }
  if (!anything) return nullptr;
  tuttiComm_t made = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.most_ctas = most_ctas_;
  expect_success(tuttiCommSplit(parent_, color, key, &made, most_ctas_ == 0 ? nullptr : &config),
                 parent_, "tuttiCommSplit");
  ++splits_;
  if (made != nullptr) made_.push_back(made);
  return made;
}

tuttiComm_t Communicators::of(std::span<const RankSet> disjoint) {
  check(disjoint);
  const tuttiComm_t made = split(disjoint, known_);
  tuttiComm_t own = nullptr;
  for (const RankSet& group : disjoint) {
    const bool is_new = known_.insert(group).second;
    if (group.place_of(rank_) < 0) continue;
    if (is_new) mine_[group] = made;
    own = mine_[group];
  }
  return own;
}

tuttiComm_t Communicators::of(const Mesh& mesh, std::span<const std::string> axes) {
  require(mesh.ranks() == ranks_, "the mesh has ", mesh.ranks(), " ranks and the communicator ",
          ranks_, "; make the mesh of all ranks of the parent");
  const std::vector<RankSet> groups = mesh.groups(axes);
  return of(groups);
}

tuttiComm_t Communicators::make_own(std::span<const RankSet> disjoint) {
  check(disjoint);
  return split(disjoint, {});
}

}  // namespace tutti::runtime
