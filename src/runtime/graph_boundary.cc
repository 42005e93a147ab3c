// The rows of a graph that its parts need of each other.
#include <set>
#include <tuple>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/gnn_pipeline.h"

namespace tutti::runtime {
namespace {

/// A vertex that goes to a part that does not have it: (part, its own part, vertex), once each.
using Copies = std::set<std::tuple<int, int, int64_t>>;

Copies copies_of(std::span<const GraphEdge> edges, std::span<const int> part_of_vertex) {
  Copies copies;
  for (const GraphEdge& edge : edges) {
    const auto is_known = [&](int64_t v) { return v >= 0 && v < std::ssize(part_of_vertex); };
    require(is_known(edge.from) && is_known(edge.to), "an edge goes from ", edge.from, " to ",
            edge.to, "; there are ", part_of_vertex.size(), " vertices");
    const int part = part_of_vertex[at(edge.to)], own = part_of_vertex[at(edge.from)];
    if (own != part) copies.emplace(part, own, edge.from);
  }
  return copies;
}

}  // namespace

Bytes graph_parallel_bytes(std::span<const GraphEdge> edges, std::span<const int> part_of_vertex,
                           int layers, Bytes row) {
  require(layers >= 1 && row >= Bytes(1), layers, " layers of rows of ", row.value,
          " bytes; give 1 or more");
  const Copies copies = copies_of(edges, part_of_vertex);
  const int64_t rows = checked_product(std::ssize(copies), layers, "copies of vertices");
  return Bytes(checked_product(rows, row.value, "what graph parallelism moves"));
}

GraphBoundary graph_boundary(std::span<const GraphEdge> edges, std::span<const int> part_of_vertex,
                             int parts) {
  check_ranks(parts);
  GraphBoundary boundary;
  Resharding& rows = boundary.rows;
  rows.ranks = parts;
  rows.source_sizes.assign(at(parts), 0);
  rows.target_sizes.assign(at(parts), 0);
  boundary.halo.resize(at(parts));
  std::vector<int64_t> place;  // of each vertex in its rank's rows
  for (size_t v = 0; v < part_of_vertex.size(); ++v) {
    const int part = part_of_vertex[v];
    require(part >= 0 && part < parts, "vertex ", v, " is in part ", part, "; there are 0 to ",
            parts - 1);
    place.push_back(rows.source_sizes[at(part)]++);
  }
  for (const auto& [target, source, vertex] : copies_of(edges, part_of_vertex)) {
    const int64_t offset = place[at(vertex)], filled = rows.target_sizes[at(target)]++;
    boundary.halo[at(target)].push_back(vertex);
    if (!rows.parcels.empty()) {  // neighbours in both buffers go together
      Parcel& last = rows.parcels.back();
      if (last.source == source && last.target == target &&
          last.source_offset + last.length == offset) {
        ++last.length;
        continue;
      }
    }
    rows.parcels.push_back({source, target, offset, filled, 1});
  }
  return boundary;
}

}  // namespace tutti::runtime
