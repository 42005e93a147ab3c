#include "src/paths/colouring.h"

#include <string>
#include <utility>

namespace tutti::paths {
namespace {

constexpr uint32_t kNone = ~0u;

// Edges between parts: each part has an edge of a colour at most once.
class PartGraph {
 public:
  PartGraph(const std::vector<FlowEdge>& edges, uint32_t left, uint32_t right, uint32_t colours)
      : colours_(colours), ends_(edges.size()), colour_of_(edges.size(), kNone) {
    cut(edges, left, &FlowEdge::left, 0);
    cut(edges, right, &FlowEdge::right, 1);
    at_.assign(size_t{parts_} * colours, kNone);
  }

  void colour(uint32_t edge) {
    const uint32_t a = ends_[edge].first, b = ends_[edge].second;
    const uint32_t free_a = free_colour(a), free_b = free_colour(b);
    if (free_a != free_b) swap_path(b, free_a, free_b);
    set(edge, free_a);
  }

  std::vector<uint32_t> colours() && { return std::move(colour_of_); }

 private:
  void cut(const std::vector<FlowEdge>& edges, uint32_t nodes, uint32_t FlowEdge::*end, int side) {
    std::vector<uint32_t> part(nodes, kNone), used(nodes, colours_);
    for (size_t i = 0; i < edges.size(); ++i) {
      const uint32_t node = edges[i].*end;
      if (used[node] == colours_) {
        part[node] = parts_++;
        used[node] = 0;
      }
      ++used[node];
      (side == 0 ? ends_[i].first : ends_[i].second) = part[node];
    }
  }

  uint32_t& at(uint32_t part, uint32_t colour) { return at_[size_t{part} * colours_ + colour]; }

  uint32_t free_colour(uint32_t part) {
    uint32_t colour = 0;
    while (at(part, colour) != kNone) ++colour;
    return colour;
  }

  void set(uint32_t edge, uint32_t colour) {
    colour_of_[edge] = colour;
    at(ends_[edge].first, colour) = edge;
    at(ends_[edge].second, colour) = edge;
  }

  // From `part`, which has `one` and lacks `other`, along edges of the two colours in turn: each
  // gets the other colour. The path cannot come back, since the graph is bipartite and it cannot
  // reach the part where `one` is free.
  void swap_path(uint32_t part, uint32_t one, uint32_t other) {
    std::vector<uint32_t> path;
    for (uint32_t colour = one; at(part, colour) != kNone; colour = colour == one ? other : one) {
      const uint32_t edge = at(part, colour);
      path.push_back(edge);
      part = ends_[edge].first == part ? ends_[edge].second : ends_[edge].first;
    }
    for (const uint32_t edge : path) {
      at(ends_[edge].first, colour_of_[edge]) = kNone;
      at(ends_[edge].second, colour_of_[edge]) = kNone;
    }
    for (const uint32_t edge : path) set(edge, colour_of_[edge] == one ? other : one);
  }

  uint32_t colours_;
  uint32_t parts_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> ends_;  // of each edge, the parts
  std::vector<uint32_t> colour_of_;
  std::vector<uint32_t> at_;  // [part][colour]: the edge
};

}  // namespace

Result<std::vector<uint32_t>> equitable_colours(const std::vector<FlowEdge>& edges, uint32_t left,
                                                uint32_t right, uint32_t colours) {
  if (colours == 0) return Status::invalid_argument("edges cannot be coloured with no colours");
  for (const FlowEdge& edge : edges) {
    if (edge.left < left && edge.right < right) continue;
    return Status::invalid_argument("an edge joins node " + std::to_string(edge.left) + " of " +
                                    std::to_string(left) + " with node " +
                                    std::to_string(edge.right) + " of " + std::to_string(right));
  }
  PartGraph parts(edges, left, right, colours);
  for (uint32_t edge = 0; edge < edges.size(); ++edge) parts.colour(edge);
  return std::move(parts).colours();
}

}  // namespace tutti::paths
