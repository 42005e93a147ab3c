#include "src/arrange/arrangement.h"

#include <algorithm>
#include <vector>

namespace tutti::arrange {
namespace {

constexpr const char* kNames[] = {"tensor", "context", "expert", "pipeline", "data"};
constexpr const char* kShortNames[] = {"tp", "cp", "ep", "pp", "dp"};

/// The levels on which the axis has a factor, from the innermost.
std::vector<size_t> levels_of(const Spread& spread, const EvenCluster& cluster) {
  std::vector<size_t> levels;
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    if (spread.at[level] > 1) levels.push_back(level);
  }
  return levels;
}

std::string joined(const std::string& text, const char* separator, const std::string& more) {
  return text.empty() ? more : text + separator + more;
}

}  // namespace

const char* name_of(Axis axis) { return kNames[static_cast<size_t>(axis)]; }
const char* short_name_of(Axis axis) { return kShortNames[static_cast<size_t>(axis)]; }

uint32_t Spread::degree() const { return within(at.size() - 1); }

uint32_t Spread::within(size_t level) const {
  uint32_t ranks = 1;
  for (size_t i = 0; i <= level; ++i) ranks *= at[i];
  return ranks;
}

size_t Spread::outermost() const {
  for (size_t level = at.size(); level-- > 0;) {
    if (at[level] > 1) return level;
  }
  return 0;
}

Spread operator*(const Spread& one, const Spread& other) {
  Spread both = one;
  for (size_t level = 0; level < both.at.size(); ++level) both.at[level] *= other.at[level];
  return both;
}

Spread Arrangement::gradient_group() const {
  return expert_gradient_group() * (*this)[Axis::kExpert];
}

Spread Arrangement::expert_gradient_group() const {
  return (*this)[Axis::kData] * (*this)[Axis::kContext];
}

std::string describe(const Arrangement& arrangement) {
  std::string text;
  for (size_t i = 0; i < kAxes; ++i) {
    const uint32_t degree = arrangement.axes[i].degree();
    if (degree == 1) continue;
    text = joined(text, " x ", std::string(kShortNames[i]) + " " + std::to_string(degree));
  }
  if (text.empty()) text = "one rank";
  text += ", micro-batch " + std::to_string(arrangement.micro_batch) + " x " +
          std::to_string(arrangement.micro_batches);
  if (arrangement.zero > 0) text += ", zero " + std::to_string(arrangement.zero);
  if (arrangement.chunks > 1) text += ", interleaved " + std::to_string(arrangement.chunks);
  if (arrangement.sequence_parallel) text += ", sequence parallel";
  if (arrangement.recomputed) text += ", recomputed";
  if (arrangement.outer_period > 0) {
    text += ", outer steps every " + std::to_string(arrangement.outer_period);
  }
  return text;
}

std::string describe_levels(const Arrangement& arrangement, const EvenCluster& cluster) {
  std::string text;
  for (size_t i = 0; i < kAxes; ++i) {
    std::string own;
    for (const size_t level : levels_of(arrangement.axes[i], cluster)) {
      own = joined(
          own, ", ",
          std::to_string(arrangement.axes[i].at[level]) + " in " + cluster.levels[level].name);
    }
    if (!own.empty()) text = joined(text, "; ", std::string(kShortNames[i]) + " " + own);
  }
  return text.empty() ? "one rank" : text;
}

std::string mesh_text(const Arrangement& arrangement, const EvenCluster& cluster) {
  std::string text;
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    for (size_t i = 0; i < kAxes; ++i) {
      const uint32_t factor = arrangement.axes[i].at[level];
      if (factor == 1) continue;
      std::string name = kShortNames[i];
      if (levels_of(arrangement.axes[i], cluster).size() > 1) {
        name += "." + cluster.levels[level].name;
        std::replace(name.begin(), name.end(), ' ', '_');
      }
      text = joined(text, ",", name + "=" + std::to_string(factor));
    }
  }
  return text.empty() ? "dp=1" : text;
}

}  // namespace tutti::arrange
