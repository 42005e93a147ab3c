// Two questions to the other ranks: the index of sparse attention, and the boundaries of graphs.
#include <nanobind/stl/pair.h>

#include <utility>
#include <vector>

#include "communicator.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/gnn_pipeline.h"
#include "tutti/runtime/sparse_index.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

void add_graphs(nb::module_& module) {
  module.def(
      "top_mass",
      [](const std::vector<double>& mass, double target) { return top_mass(mass, target); },
      "mass"_a, "target"_a,
      "The fewest entries with at least `target` of all mass, ascending; of equal ones those "
      "with the lowest numbers.\n\n"
      ">>> tutti.top_mass([1, 5, 0, 2, 2], 0.7)\n[1, 3]");
  module.def(
      "exchange_index",
      [](Communicator& comm, const std::vector<double>& verticals,
         const std::vector<double>& slashes, double target) {
        const tuttiComm_t handle = comm.handle();
        SparseIndex index;
        comm.run([&] { index = exchange_index(handle, verticals, slashes, target); });
        return std::pair(index.verticals, index.slashes);
      },
      "comm"_a, "verticals"_a, "slashes"_a, "target"_a,
      "(columns, diagonals) that sparse attention computes, equal on all ranks: masses of all "
      "ranks "
      "are added, and of each kind the fewest that reach `target` are kept (MTraining).\n\n"
      ">>> tutti.run(lambda comm: tutti.exchange_index(comm, [comm.rank, 3], [1, 0, 0], 0.8),\n"
      "...           ranks=2)\n"
      "[([1], [0]), ([1], [0])]");
  record<GraphBoundary>(
      module, "GraphBoundary", "Rows that graph-parallel ranks exchange.",
      field("rows", &GraphBoundary::rows, "a Resharding, in vertices"),
      field("halo", &GraphBoundary::halo, "of each rank: the vertices that come"));
  module.def(
      "graph_boundary",
      [](const std::vector<std::pair<int64_t, int64_t>>& edges, const std::vector<int>& parts,
         int ranks) {
        std::vector<GraphEdge> list;
        for (const auto& [from, to] : edges) list.push_back({from, to});
        return graph_boundary(list, parts, ranks);
      },
      "edges"_a, "parts"_a, "ranks"_a,
      "What ranks need of each other before a layer of a graph network, in true sizes: edges are "
      "(from, to), and vertex v is on rank parts[v] (GNNPipe's graph-parallel stages).\n\n"
      ">>> boundary = tutti.graph_boundary([(0, 1), (0, 2), (3, 0)], [0, 1, 1, 1], ranks=2)\n"
      ">>> boundary.halo, tutti.moved(boundary.rows)\n([[3], [0]], 2)");
}

}  // namespace tutti::python
