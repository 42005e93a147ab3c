#include "tutti/runtime/mesh.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "src/runtime/refuse.h"

namespace tutti::runtime {

RankSet::RankSet(std::vector<int> ranks) : ranks_(std::move(ranks)) {
  require(!ranks_.empty(), "a rank set is empty; name at least one rank");
  std::vector<int> sorted = ranks_;
  std::sort(sorted.begin(), sorted.end());
  require(sorted.front() >= 0, "rank ", sorted.front(), " is negative; ranks count from 0");
  for (size_t i = 1; i < sorted.size(); ++i) {
    require(sorted[i - 1] != sorted[i], "rank ", sorted[i], " is twice in ", text(),
            "; name each rank once");
  }
}

RankSet RankSet::range(int first, int count) {
  require(first >= 0 && count >= 0 && first <= INT_MAX - count, "there are no ranks ", first,
          " to ", first, " + ", count, "; ranks count from 0 to 2^31 - 1");
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return RankSet(std::move(ranks));
}

int RankSet::place_of(int rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
}

std::string RankSet::text() const {
  std::string text = "{";
  for (const int rank : ranks_) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "}";
}

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  require(!axes_.empty(), "a mesh needs at least one axis");
  int64_t product = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const MeshAxis& axis = axes_[i];
    require(!axis.name.empty(), "axis ", i, " of the mesh has no name");
    require(axis.size >= 1, "axis '", axis.name, "' has size ", axis.size, "; give 1 or more");
    for (size_t j = 0; j < i; ++j) {
      require(axes_[j].name != axis.name, "two axes are named '", axis.name, "'; rename one");
    }
    product *= axis.size;
    require(product <= INT_MAX, "the mesh has more than ", INT_MAX, " ranks; shrink its axes");
  }
  ranks_ = static_cast<int>(product);
}

size_t Mesh::index_of(std::string_view axis) const {
  std::string names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
    names += (i > 0 ? ", " : "") + axes_[i].name;
  }
  throw Error(ErrorKind::kInvalidInput,
              words("the mesh has no axis '", axis, "'; its axes are ", names));
}

int Mesh::size_of(std::string_view axis) const { return axes_[index_of(axis)].size; }

std::vector<int> Mesh::coordinates_of(int rank) const {
  require(rank >= 0 && rank < ranks_, "rank ", rank, " is not in a mesh of ", ranks_, " ranks");
  std::vector<int> coordinates;
  for (const MeshAxis& axis : axes_) {
    coordinates.push_back(rank % axis.size);
    rank /= axis.size;
  }
  return coordinates;
}

int Mesh::rank_of(std::span<const int> coordinates) const {
  require(coordinates.size() == axes_.size(), coordinates.size(), " coordinates for ", axes_.size(),
          " axes; give one for each");
  int rank = 0;
  for (size_t i = axes_.size(); i-- > 0;) {
    require(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "coordinate ", coordinates[i],
            " is outside of axis '", axes_[i].name, "' of size ", axes_[i].size);
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

std::vector<bool> Mesh::chosen(std::span<const std::string> axes) const {
  std::vector<bool> is_chosen(axes_.size(), false);
  for (const std::string& axis : axes) {
    const size_t i = index_of(axis);
    require(!is_chosen[i], "axis '", axis, "' is named twice in one group; name it once");
    is_chosen[i] = true;
  }
  return is_chosen;
}

RankSet Mesh::group(std::span<const std::string> axes, int rank) const {
  const std::vector<bool> is_chosen = chosen(axes);
  std::vector<int> ranks{0};
  const std::vector<int> own = coordinates_of(rank);
  int stride = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    std::vector<int> next;
    const int first = is_chosen[i] ? 0 : own[i];
    const int last = is_chosen[i] ? axes_[i].size - 1 : own[i];
    for (int c = first; c <= last; ++c) {
      for (const int before : ranks) next.push_back(before + c * stride);
    }
    ranks = std::move(next);
    stride *= axes_[i].size;
  }
  return RankSet(std::move(ranks));
}

std::vector<RankSet> Mesh::groups(std::span<const std::string> axes) const {
  std::vector<RankSet> groups;
  std::vector<bool> seen(static_cast<size_t>(ranks_), false);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (seen[static_cast<size_t>(rank)]) continue;
    groups.push_back(group(axes, rank));
    for (const int member : groups.back().ranks()) seen[static_cast<size_t>(member)] = true;
  }
  return groups;
}

Mesh Mesh::fold(std::vector<MeshAxis> axes, std::span<const std::string> must_match) const {
  Mesh folded(std::move(axes));
  require(folded.ranks_ == ranks_, "the folded axes multiply to ", folded.ranks_,
          " ranks and the mesh has ", ranks_, "; change a size so that they agree");
  for (const std::string& axis : must_match) {
    const std::string one[] = {axis};
    const std::vector<RankSet> here = groups(one), there = folded.groups(one);
    require(here.size() == there.size(), "axis '", axis, "' has ", size_of(axis),
            " ranks here and ", folded.size_of(axis), " folded; give it one size");
    for (size_t i = 0; i < here.size(); ++i) {
      require(here[i] == there[i], "the groups of axis '", axis, "' differ: ", here[i].text(),
              " here, ", there[i].text(), " folded; put the axis at the same place of both orders");
    }
  }
  return folded;
}

}  // namespace tutti::runtime
