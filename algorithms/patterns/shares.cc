#include "algorithms/patterns/shares.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::algorithms::patterns {

using schedule::Fraction;
using schedule::NodeTree;
using schedule::NodeTreePointer;
using schedule::Partition;

namespace {

constexpr uint64_t kFinest = uint64_t{1} << 40;  // units of a line that is cut exactly
constexpr uint64_t kFewBlocks = 4096;            // beyond, shares are rounded

uint64_t most_blocks(const NodeTree& tree) {
  return std::max(kFewBlocks, 8 * static_cast<uint64_t>(tree.ranks()));
}

// The least line that can be cut into equal shares at every node above every rank; 0 if it would
// have more than kFinest units.
uint64_t finest_unit(const NodeTree& tree) {
  uint64_t unit = 1;
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    uint64_t product = 1;
    for (size_t level = 0; level < tree.levels(); ++level) {
      product *= tree.children_of(level, tree.node_of(level, rank)).size();
      if (product > kFinest) return 0;
    }
    const uint64_t factor = product / std::gcd(unit, product);
    if (factor > kFinest / unit) return 0;
    unit *= factor;
  }
  return unit;
}

// Cuts every cell into `parts`, of which visit(part, stretch) is told in the order of the cells.
// Units that do not go round go to the parts in turn, over all cells.
template <class Visit>
void visit_parts(const std::vector<Stretch>& cells, size_t parts, const Visit& visit) {
  uint64_t turn = 0;
  for (const Stretch& cell : cells) {
    const uint64_t each = cell.width() / parts, rest = cell.width() % parts;
    uint64_t begin = cell.begin;
    for (size_t i = 0; i < parts; ++i) {
      const bool more = (i + parts - turn) % parts < rest;
      const uint64_t end = begin + each + (more ? 1 : 0);
      visit(i, Stretch{begin, end});
      begin = end;
    }
    turn = (turn + rest) % parts;
  }
}

std::vector<std::vector<Stretch>> split(const std::vector<Stretch>& cells, size_t parts) {
  std::vector<std::vector<Stretch>> result(parts);
  for (std::vector<Stretch>& part : result) part.reserve(cells.size());
  visit_parts(cells, parts, [&](size_t i, Stretch stretch) { result[i].push_back(stretch); });
  return result;
}

// One part of them.
std::vector<Stretch> part_of(const std::vector<Stretch>& cells, size_t parts, size_t wanted) {
  std::vector<Stretch> result;
  result.reserve(cells.size());
  visit_parts(cells, parts, [&](size_t i, Stretch stretch) {
    if (i == wanted) result.push_back(stretch);
  });
  return result;
}

Stretch common(Stretch a, Stretch b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

Shares Shares::equal(NodeTreePointer tree) {
  Shares shares(std::move(tree));
  shares.cuts_parts_ = false;
  const uint64_t finest =
      shares.regular_ ? static_cast<uint64_t>(shares.tree_->ranks()) : finest_unit(*shares.tree_);
  if (finest != 0) {
    shares.lay_out(finest);
    if (shares.cut()) return shares;
  }
  shares.exact_ = false;
  shares.bounds_.clear();
  shares.lay_out(most_blocks(*shares.tree_));
  return shares;
}

Shares Shares::parts(NodeTreePointer tree) {
  Shares shares(std::move(tree));
  const auto order = shares.tree_->ranks_of(shares.tree_->levels() - 1, 0);
  shares.length_ = order.size();
  shares.owned_.assign(order.size(), {});
  for (uint64_t i = 0; i < order.size(); ++i) {
    shares.owned_[static_cast<size_t>(order[i])] = {i, i + 1};
  }
  return shares;
}

// ---- what is owned -----------------------------------------------------------------------------

void Shares::lay_out(uint64_t units) {
  unit_ = length_ = units;
  owned_.assign(static_cast<size_t>(tree_->ranks()), {});
  own(tree_->levels() - 1, 0, {0, length_});
}

void Shares::own(size_t level, uint32_t node, Stretch interval) {
  const auto children = tree_->children_of(level, node);
  const auto parts = split({interval}, children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    if (level == 0) {
      owned_[children[i]] = parts[i][0];
    } else {
      own(level - 1, children[i], parts[i][0]);
    }
  }
}

Stretch Shares::owned_by(size_t level, uint32_t node) const {
  const auto ranks = tree_->ranks_of(level, node);
  return {owned_by(ranks.front()).begin, owned_by(ranks.back()).end};
}

Stretch Shares::owned_by_child(size_t level, uint32_t child) const {
  return level == 0 ? owned_by(static_cast<int>(child)) : owned_by(level - 1, child);
}

void Shares::classify() {
  std::map<std::vector<uint32_t>, uint32_t> known;
  for (size_t level = 0; level < tree_->levels(); ++level) {
    std::vector<uint32_t>& classes = classes_.emplace_back();
    std::vector<uint32_t> key, before;  // neighbours are mostly alike
    for (uint32_t node = 0; node < tree_->nodes(level); ++node) {
      key = {static_cast<uint32_t>(level)};
      for (const uint32_t child : tree_->children_of(level, node)) {
        key.push_back(level == 0 ? 0 : classes_[level - 1][child]);
      }
      const auto next = static_cast<uint32_t>(known.size());
      classes.push_back(key == before ? classes.back()
                                      : known.try_emplace(key, next).first->second);
      regular_ = regular_ && classes.back() == classes.front();
      std::swap(key, before);
    }
  }
}

// ---- blocks ------------------------------------------------------------------------------------

// Blocks end wherever somebody's holding ends. False where they would be too many.
bool Shares::cut() {
  if (regular_) return true;  // the units are: there is one for each rank
  bounds_ = {0};
  for (const Stretch& interval : owned_) bounds_.push_back(interval.end);
  if (!cut_foreign(tree_->levels() - 1, 0, bounds_)) return false;
  std::sort(bounds_.begin(), bounds_.end());
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  return bounds_.size() <= most_blocks(*tree_) + 1;
}

// Cuts at what siblings hold of each other's intervals. Of siblings that are alike one stands for
// all: what it would do in its own interval the others do there.
bool Shares::cut_foreign(size_t level, uint32_t node, std::vector<uint64_t>& bounds) const {
  if (level == 0) return true;
  std::map<uint32_t, std::vector<uint32_t>> alike;
  const auto children = tree_->children_of(level, node);
  for (const uint32_t child : children) alike[classes_[level - 1][child]].push_back(child);
  for (const auto& [kind, members] : alike) {
    Intervals cells;
    for (const uint32_t child : children) {
      if (members.size() > 1 || child != members[0]) {
        cells.push_back(owned_by_child(level, child));
      }
    }
    if (!cut_nested(level - 1, members[0], cells, bounds)) return false;
    if (members.size() == 1 && !cut_foreign(level - 1, members[0], bounds)) return false;
  }
  return true;
}

bool Shares::cut_nested(size_t level, uint32_t node, const Intervals& cells,
                        std::vector<uint64_t>& bounds) const {
  const auto children = tree_->children_of(level, node);
  Intervals all;
  for (const Intervals& part : split(cells, children.size())) {
    for (const Stretch& cell : part) bounds.push_back(cell.end);
    all.insert(all.end(), part.begin(), part.end());
  }
  if (bounds.size() > 16 * most_blocks(*tree_)) return false;  // few of them can be the same
  if (level == 0) return true;
  std::map<uint32_t, uint32_t> kinds;
  for (const uint32_t child : children) kinds.try_emplace(classes_[level - 1][child], child);
  return std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) {
    return cut_nested(level - 1, kind.second, all, bounds);
  });
}

Partition Shares::partition() const {
  if (bounds_.empty()) return Partition::equal(static_cast<uint32_t>(length_));
  const auto blocks = static_cast<uint32_t>(bounds_.size() - 1);
  Partition cut{blocks, {}};
  for (const uint64_t bound : bounds_) cut.bounds.push_back(Fraction::of(bound, length_));
  return cut;
}

void Shares::append_blocks(Stretch interval, std::vector<uint32_t>& blocks) const {
  if (interval.empty()) return;
  if (cuts_parts_) {
    const auto order = tree_->ranks_of(tree_->levels() - 1, 0);
    for (uint64_t i = interval.begin; i < interval.end; ++i) {
      blocks.push_back(static_cast<uint32_t>(order[i]));
    }
    return;
  }
  uint64_t first = interval.begin, last = interval.end;
  if (!bounds_.empty()) {
    const auto index = [&](uint64_t bound) {
      return static_cast<uint64_t>(std::lower_bound(bounds_.begin(), bounds_.end(), bound) -
                                   bounds_.begin());
    };
    first = index(first);
    last = index(last);
  }
  for (uint64_t i = first; i < last; ++i) blocks.push_back(static_cast<uint32_t>(i));
}

// ---- who holds what ----------------------------------------------------------------------------

std::vector<Shares::Cell> Shares::cells_of(size_t level, uint32_t node,
                                           const Intervals& leaving) const {
  const auto children = tree_->children_of(level, node);
  std::vector<Cell> cells;
  const auto parts = split(leaving, children.size());
  for (uint32_t child = 0; child < children.size(); ++child) {
    for (const Stretch& part : parts[child]) cells.push_back({part, child, false});
  }
  for (uint32_t child = 0; child < children.size(); ++child) {
    cells.push_back({owned_by_child(level, children[child]), child, true});
  }
  return cells;
}

// The cells that the child deals out among its own children. First those that leave its parent, in
// the order in which the parent deals them; then those that leave the child for its siblings.
std::vector<size_t> Shares::leaving(const std::vector<Cell>& cells, uint32_t child) {
  std::vector<size_t> order;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (cells[c].child == child && !cells[c].owned) order.push_back(c);
  }
  for (size_t c = 0; c < cells.size(); ++c) {
    if (cells[c].child != child) order.push_back(c);
  }
  return order;
}

Shares::Intervals Shares::intervals_of(const std::vector<Cell>& cells,
                                       const std::vector<size_t>& order) {
  Intervals intervals;
  for (const size_t c : order) intervals.push_back(cells[c].at);
  return intervals;
}

// The ranks below a node that hold the `wanted` part of each cell that is dealt out there.
std::vector<Shares::Pieces> Shares::deal(size_t level, uint32_t node, const Intervals& cells,
                                         const Intervals& wanted) const {
  const auto children = tree_->children_of(level, node);
  const auto parts = split(cells, children.size());
  std::vector<Pieces> pieces(cells.size());
  for (size_t i = 0; i < children.size(); ++i) {
    Intervals rest(cells.size());
    bool any = false;
    for (size_t c = 0; c < cells.size(); ++c) {
      rest[c] = common(parts[i][c], wanted[c]);
      if (rest[c].empty()) continue;
      any = true;
      if (level == 0) pieces[c].push_back({rest[c], static_cast<int>(children[i])});
    }
    if (!any || level == 0) continue;
    const std::vector<Pieces> below = deal(level - 1, children[i], parts[i], rest);
    for (size_t c = 0; c < cells.size(); ++c) {
      pieces[c].insert(pieces[c].end(), below[c].begin(), below[c].end());
    }
  }
  return pieces;
}

// The part that a rank holds of the cells that its node of `level` deals out.
Shares::Intervals Shares::held_by(size_t level, const Intervals& cells, int rank) const {
  const auto children = tree_->children_of(level, tree_->node_of(level, rank));
  Intervals mine = part_of(cells, children.size(), tree_->child_of(level, rank));
  return level == 0 ? mine : held_by(level - 1, mine, rank);
}

// Of each cell in the exchange at `level`.
Shares::Intervals Shares::held_in_exchange(size_t level, const std::vector<Cell>& cells,
                                           int rank) const {
  Intervals mine;
  for (const Cell& cell : cells) mine.push_back(level == 0 ? cell.at : owned_by(rank));
  if (level == 0) return mine;
  const std::vector<size_t> order = leaving(cells, tree_->child_of(level, rank));
  const Intervals held = held_by(level - 1, intervals_of(cells, order), rank);
  for (size_t i = 0; i < order.size(); ++i) mine[order[i]] = held[i];
  return mine;
}

// The ranks of a child that hold the `wanted` part of each cell.
std::vector<Shares::Pieces> Shares::holders(size_t level, uint32_t node, uint32_t child,
                                            const std::vector<Cell>& cells,
                                            const Intervals& wanted) const {
  std::vector<Pieces> pieces(cells.size());
  const uint32_t below = tree_->children_of(level, node)[child];
  if (level == 0) {
    for (size_t c = 0; c < cells.size(); ++c) pieces[c] = {{cells[c].at, static_cast<int>(below)}};
    return pieces;
  }
  const std::vector<size_t> order = leaving(cells, child);
  Intervals parts;
  for (const size_t c : order) parts.push_back(wanted[c]);
  std::vector<Pieces> dealt = deal(level - 1, below, intervals_of(cells, order), parts);
  for (size_t i = 0; i < order.size(); ++i) pieces[order[i]] = std::move(dealt[i]);
  for (size_t c = 0; c < cells.size(); ++c) {
    if (cells[c].child != child || !cells[c].owned || wanted[c].empty()) continue;
    for (const int owner : tree_->ranks_of(level - 1, below)) {
      const Stretch part = common(owned_by(owner), wanted[c]);
      if (!part.empty()) pieces[c].push_back({part, owner});
    }
  }
  return pieces;
}

// Where all subtrees are alike, the ranks of one place in the children of a node hold the same.
Team Shares::rail(size_t level, int rank, const std::vector<Cell>& cells,
                  const Intervals& mine) const {
  const auto children = tree_->children_of(level, tree_->node_of(level, rank));
  Team team{{}, std::vector<std::vector<uint32_t>>(children.size())};
  size_t place = 0;
  if (level > 0) {
    const auto siblings = tree_->ranks_of(level - 1, tree_->node_of(level - 1, rank));
    place =
        static_cast<size_t>(std::find(siblings.begin(), siblings.end(), rank) - siblings.begin());
  }
  for (const uint32_t child : children) {
    team.members.push_back(level == 0 ? static_cast<int>(child)
                                      : tree_->ranks_of(level - 1, child)[place]);
  }
  for (size_t c = 0; c < cells.size(); ++c) {
    append_blocks(mine[c], team.blocks[cells[c].child]);
  }
  return team;
}

Teams Shares::teams_at(size_t level, int rank, const std::vector<Cell>& cells) const {
  const uint32_t node = tree_->node_of(level, rank), me = tree_->child_of(level, rank);
  const size_t children = tree_->children_of(level, node).size();
  const Intervals mine = held_in_exchange(level, cells, rank);
  if (regular_)
    return {
        level, static_cast<int>(children), static_cast<int>(me), {rail(level, rank, cells, mine)}};
  std::vector<std::vector<Pieces>> holders_of;  // by child and cell
  for (uint32_t child = 0; child < children; ++child) {
    holders_of.push_back(child == me ? std::vector<Pieces>(cells.size())
                                     : holders(level, node, child, cells, mine));
  }
  std::map<std::vector<int>, std::vector<std::vector<uint32_t>>> teams;
  std::vector<int> members(children, rank);
  for (size_t c = 0; c < cells.size(); ++c) {
    std::vector<size_t> at(children);
    for (uint64_t begin = mine[c].begin; begin < mine[c].end;) {
      uint64_t end = mine[c].end;
      for (size_t child = 0; child < children; ++child) {
        if (child == me) continue;
        const Pieces& pieces = holders_of[child][c];
        while (pieces[at[child]].at.end <= begin) ++at[child];
        members[child] = pieces[at[child]].rank;
        end = std::min(end, pieces[at[child]].at.end);
      }
      auto& blocks = teams.try_emplace(members, children).first->second[cells[c].child];
      append_blocks({begin, end}, blocks);
      begin = end;
    }
  }
  Teams result{level, static_cast<int>(children), static_cast<int>(me), {}};
  for (auto& [ranks, blocks] : teams) result.teams.push_back({ranks, std::move(blocks)});
  return result;
}

std::vector<Teams> Shares::teams_of(int rank) const {
  std::vector<Teams> all(tree_->levels());
  Intervals dealt;
  for (size_t level = tree_->levels(); level-- > 0;) {
    const std::vector<Cell> cells = cells_of(level, tree_->node_of(level, rank), dealt);
    all[level] = teams_at(level, rank, cells);
    dealt = intervals_of(cells, leaving(cells, tree_->child_of(level, rank)));
  }
  return all;
}

void Shares::visit_holdings(const Visit& visit) const { hold(tree_->levels() - 1, 0, {}, visit); }

void Shares::hold(size_t level, uint32_t node, const Intervals& dealt, const Visit& visit) const {
  const std::vector<Cell> cells = cells_of(level, node, dealt);
  Intervals whole;
  for (const Cell& cell : cells) whole.push_back(cell.at);
  const auto children = tree_->children_of(level, node);
  for (uint32_t child = 0; child < children.size(); ++child) {
    const std::vector<Pieces> pieces = holders(level, node, child, cells, whole);
    for (size_t c = 0; c < cells.size(); ++c) {
      for (const Piece& piece : pieces[c]) {
        visit({level, piece.rank, child, cells[c].child, piece.at.width()});
      }
    }
    if (level == 0) continue;
    hold(level - 1, children[child], intervals_of(cells, leaving(cells, child)), visit);
  }
}

}  // namespace tutti::algorithms::patterns
