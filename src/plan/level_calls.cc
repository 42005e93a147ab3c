#include "src/plan/level_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "src/plan/level_run.h"
#include "src/plan/touch.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Schedule;
using schedule::Space;

namespace {

using Written = std::map<uint32_t, BlockTerms>;  // of a rank, by block

Status partial() {
  return Status::unsupported("a sum over some ranks of the host only is kept, or sent on");
}

/// A row as all ranks of the host know it.
struct LevelRowOfHost {
  LevelRowKind kind = LevelRowKind::kFold;
  uint32_t root = 0, peer = 0;                             // places
  std::vector<std::optional<Block>> sources{}, targets{};  // by place
};

/// The rows of one run.
class LevelRows {
 public:
  LevelRows(const schedule::Shape& shape, std::span<const Schedule> schedules,
            const std::vector<Written>& written)
      : shape_(shape), schedules_(schedules), written_(written), copies_(schedules.size()) {}

  Status find() {
    for (uint32_t place = 0; place < ranks(); ++place) {
      for (const auto& [word, terms] : written_[place]) {
        if (Status status = add(place, Block{word}, terms); !status.ok()) return status;
      }
    }
    join_folds();
    join_copies();
    sort();
    if (!folds_alike()) return Status::unsupported("a sum has inputs and other sums");
    for (uint32_t place = 0; place < ranks(); ++place) {
      if (Status status = check_hazards(place); !status.ok()) return status;
    }
    return {};
  }

  MatchedLevel of(uint32_t place, uint32_t before) const {
    MatchedLevel level{.before = before, .rows = {}, .whole = whole()};
    for (const LevelRowOfHost& row : rows_) {
      const bool concerned =
          row.kind != LevelRowKind::kPair || row.root == place || row.peer == place;
      if (!concerned) continue;
      level.rows.push_back({.kind = row.kind,
                            .root = schedules_[row.root].rank,
                            .peer = schedules_[row.peer].rank,
                            .source = row.sources[place],
                            .target = row.targets[place]});
    }
    for (const auto& [target, source] : copies_[place]) {
      level.rows.push_back({.is_local = true, .source = source, .target = target});
    }
    return level;
  }

 private:
  uint32_t ranks() const { return static_cast<uint32_t>(schedules_.size()); }

  LevelRowOfHost row(LevelRowKind kind, uint32_t root) const {
    LevelRowOfHost made{.kind = kind, .root = root, .peer = root};
    made.sources.resize(ranks());
    made.targets.resize(ranks());
    return made;
  }

  Status add(uint32_t place, Block target, const BlockTerms& terms) {
    const auto repeats =
        std::adjacent_find(terms.begin(), terms.end(),
                           [](const auto& a, const auto& b) { return a.place == b.place; });
    if (repeats != terms.end()) return partial();
    if (terms.size() == 1) {
      const Block source{terms[0].block};
      if (terms[0].place != place) {
        wanted_[terms[0]][place].push_back(target);
      } else if (source != target) {
        copies_[place].emplace_back(target, source);
      }
      return {};
    }
    if (terms.size() != ranks()) return partial();
    LevelRowOfHost made = row(LevelRowKind::kFold, place);
    for (const BlockOfRank& one : terms) made.sources[one.place] = Block{one.block};
    made.targets[place] = target;
    rows_.push_back(std::move(made));
    return {};
  }

  // A fold that every rank gets is one row.
  void join_folds() {
    std::map<std::vector<uint32_t>, std::vector<size_t>> alike;
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::vector<uint32_t> key;
      for (const auto& source : rows_[i].sources) key.push_back(source->word);
      alike[key].push_back(i);
    }
    std::vector<LevelRowOfHost> kept;
    std::set<size_t> joined;
    for (const auto& [key, which] : alike) {
      std::set<uint32_t> roots;
      for (const size_t i : which) roots.insert(rows_[i].root);
      if (which.size() != ranks() || roots.size() != ranks()) continue;
      LevelRowOfHost all = rows_[which[0]];
      all.kind = LevelRowKind::kFoldForAll;
      for (const size_t i : which) {
        all.targets[rows_[i].root] = rows_[i].targets[rows_[i].root];
        joined.insert(i);
      }
      all.root = all.peer = 0;
      kept.push_back(std::move(all));
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!joined.contains(i)) kept.push_back(std::move(rows_[i]));
    }
    rows_ = std::move(kept);
  }

  void join_copies() {
    for (const auto& [source, by_place] : wanted_) {
      const bool all_want = by_place.size() + 1 == ranks();
      if (all_want) {
        LevelRowOfHost made = row(LevelRowKind::kSpread, source.place);
        made.sources[source.place] = Block{source.block};
        for (const auto& [place, targets] : by_place) made.targets[place] = targets[0];
        rows_.push_back(std::move(made));
      }
      for (const auto& [place, targets] : by_place) {
        for (size_t i = all_want ? 1 : 0; i < targets.size(); ++i) {
          LevelRowOfHost made = row(LevelRowKind::kPair, source.place);
          made.peer = place;
          made.sources[source.place] = Block{source.block};
          made.targets[place] = targets[i];
          rows_.push_back(std::move(made));
        }
      }
    }
  }

  // The k-th rows of all roots follow each other.
  void sort() {
    std::map<std::pair<LevelRowKind, uint32_t>, uint32_t> counts;
    std::vector<std::pair<std::tuple<LevelRowKind, uint32_t, uint32_t>, size_t>> order;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const LevelRowOfHost& one = rows_[i];
      order.push_back({{one.kind, counts[{one.kind, one.root}]++, one.root}, i});
    }
    std::stable_sort(order.begin(), order.end());
    std::vector<LevelRowOfHost> sorted;
    for (const auto& [key, i] : order) sorted.push_back(std::move(rows_[i]));
    rows_ = std::move(sorted);
  }

  // Whether the blocks have one name on all ranks, and roots come by place.
  LevelWhole whole() const {
    if (rows_.empty() || rows_.size() % ranks() != 0) return LevelWhole::kNone;
    const LevelRowKind kind = rows_[0].kind;
    if (kind != LevelRowKind::kFold && kind != LevelRowKind::kSpread) return LevelWhole::kNone;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const LevelRowOfHost& one = rows_[i];
      if (one.kind != kind || one.root != i % ranks()) return LevelWhole::kNone;
      std::set<uint32_t> names;
      for (uint32_t place = 0; place < ranks(); ++place) {
        const bool reads = kind == LevelRowKind::kFold || place == one.root;
        names.insert((reads ? one.sources[place] : one.targets[place])->word);
      }
      if (names.size() > 1) return LevelWhole::kNone;
    }
    return kind == LevelRowKind::kFold ? LevelWhole::kReduceScatter : LevelWhole::kAllGather;
  }

  // An average scales what ranks bring to the folds of a call, or nothing of it.
  bool folds_alike() const {
    std::set<bool> are_inputs;
    for (const LevelRowOfHost& one : rows_) {
      if (one.kind != LevelRowKind::kFold && one.kind != LevelRowKind::kFoldForAll) continue;
      for (const auto& source : one.sources) are_inputs.insert(source->space() == Space::kInput);
    }
    return are_inputs.size() < 2;
  }

  bool overlap(uint32_t place, Block a, Block b) const {
    if (a == b) return true;
    if (a.space() == b.space() || a.space() == Space::kScratch || b.space() == Space::kScratch) {
      return false;
    }
    const int rank = schedules_[place].rank;
    if (!schedule::has_both(shape_, rank)) return false;
    const auto [first, last] = aliases(shape_, rank, a);
    return first <= b.index() && b.index() < last;
  }

  // In place or not, since ranks do not tell each other. A fold may end where it began.
  Status check_hazards(uint32_t place) const {
    const Status writes_what_it_reads =
        Status::unsupported("a call within the host would write what it reads");
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].targets[place]) continue;
      const Block target = *rows_[i].targets[place];
      for (size_t k = 0; k < rows_.size(); ++k) {
        const auto& source = rows_[k].sources[place];
        if (i != k && source && overlap(place, target, *source)) return writes_what_it_reads;
      }
      for (const auto& [copied, source] : copies_[place]) {
        if (overlap(place, target, source)) return writes_what_it_reads;
      }
    }
    for (const auto& [target, source] : copies_[place]) {
      for (const auto& [other, from] : copies_[place]) {
        if (target != other && overlap(place, target, from)) return writes_what_it_reads;
      }
    }
    return {};
  }

  const schedule::Shape& shape_;
  const std::span<const Schedule> schedules_;
  const std::vector<Written>& written_;
  std::vector<LevelRowOfHost> rows_;
  std::vector<std::vector<std::pair<Block, Block>>> copies_;  // by place: target, source
  std::map<BlockOfRank, std::map<uint32_t, std::vector<Block>>> wanted_;  // by source, by place
};

}  // namespace

Result<std::vector<RankLevels>> find_level_calls(const schedule::Shape& shape,
                                                 const group::GroupView& group,
                                                 std::span<const Schedule> schedules) {
  LevelRuns runs(group, schedules);
  if (Status status = runs.find(); !status.ok()) return status;
  std::vector<RankLevels> all(schedules.size());
  size_t most = 0;
  for (size_t place = 0; place < all.size(); ++place) {
    all[place].replaced.resize(schedules[place].steps.size(), false);
    most = std::max(most, runs.runs()[place].size());
    for (const StepRun& run : runs.runs()[place]) {
      for (uint32_t i = run.first; i <= run.last; ++i) {
        all[place].replaced[i] = schedules[place].steps[i].kind == schedule::StepKind::kMove;
      }
    }
  }
  for (size_t run = 0; run < most; ++run) {
    const Result<std::vector<Written>> written = runs.execute(run);
    if (!written.ok()) return written.status();
    LevelRows rows(shape, schedules, written.value());
    if (Status status = rows.find(); !status.ok()) return status;
    for (uint32_t place = 0; place < all.size(); ++place) {
      const auto& own = runs.runs()[place];
      const auto end = static_cast<uint32_t>(schedules[place].steps.size());
      all[place].levels.push_back(rows.of(place, run < own.size() ? own[run].first : end));
    }
  }
  return all;
}

}  // namespace tutti::plan
