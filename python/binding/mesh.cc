// Rank sets and meshes.
#include "tutti/runtime/mesh.h"

#include <nanobind/stl/pair.h>

#include "failure.h"
#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using runtime::Mesh;
using runtime::MeshAxis;
using runtime::RankSet;

namespace {

std::vector<MeshAxis> axes_of(const nb::kwargs& sizes) {
  std::vector<MeshAxis> axes;
  for (const auto& [name, size] : sizes) {
    axes.push_back({nb::cast<std::string>(name), nb::cast<int>(size)});
  }
  return axes;
}

std::vector<std::string> names_of(const nb::args& names) {
  std::vector<std::string> all;
  for (nb::handle name : names) all.push_back(nb::cast<std::string>(name));
  return all;
}

nb::dict sizes_of(const Mesh& mesh) {
  nb::dict sizes;
  for (const MeshAxis& axis : mesh.axes()) sizes[axis.name.c_str()] = axis.size;
  return sizes;
}

std::string text_of_mesh(const Mesh& mesh) {
  std::string text = "Mesh(";
  for (const MeshAxis& axis : mesh.axes()) {
    if (text.back() != '(') text += ", ";
    text += axis.name + "=" + std::to_string(axis.size);
  }
  return text + ")";
}

nb::dict coordinates_of(const Mesh& mesh, int rank) {
  const std::vector<int> found = mesh.coordinates_of(rank);
  nb::dict named;
  for (size_t i = 0; i < found.size(); ++i) named[mesh.axes()[i].name.c_str()] = found[i];
  return named;
}

int rank_at(const Mesh& mesh, const nb::kwargs& coordinates) {
  std::vector<int> places;
  for (const MeshAxis& axis : mesh.axes()) {
    if (!coordinates.contains(axis.name.c_str())) {
      refuse("rank_at: '" + axis.name + "' is missing; pass a coordinate for each axis of " +
             text_of_mesh(mesh));
    }
    places.push_back(nb::cast<int>(coordinates[axis.name.c_str()]));
  }
  if (coordinates.size() != places.size())
    refuse("rank_at: " + text_of_mesh(mesh) + " has other axes");
  return mesh.rank_of(places);
}

Mesh fold(const Mesh& mesh, const std::vector<std::string>& must_match, const nb::kwargs& sizes) {
  return mesh.fold(axes_of(sizes), must_match);
}

void add_rank_set(nb::module_& module) {
  nb::class_<RankSet>(module, "RankSet", R"doc(Distinct ranks in a fixed order: a group as a value.

>>> tutti.RankSet([0, 2, 4]), len(tutti.RankSet([0, 2, 4])), list(tutti.RankSet([3, 1]))
(RankSet([0, 2, 4]), 3, [3, 1]))doc")
      .def(
          "__init__",
          [](RankSet* self, const Integers& ranks) { new (self) RankSet(ranks.narrow()); },
          "ranks"_a)
      .def("__len__", &RankSet::size)
      .def("__getitem__",
           [](const RankSet& self, int place) {
             if (place < 0 || place >= self.size()) throw nb::index_error();
             return self[place];
           })
      .def("place_of", &RankSet::place_of, "rank"_a,
           "The place of a rank in the set; -1 if it is not in it.")
      .def("__eq__", [](const RankSet& self, const RankSet& other) { return self == other; })
      .def("__hash__", [](const RankSet& self) { return nb::hash(nb::str(self.text().c_str())); })
      .def("__repr__", [](const RankSet& self) {
        std::string text = self.text();
        return "RankSet([" + text.substr(1, text.size() - 2) + "])";
      });
}

}  // namespace

void add_mesh(nb::module_& module) {
  add_rank_set(module);
  nb::class_<Mesh>(module, "Mesh", R"doc(Ranks factored into named axes, the first axis fastest.

>>> mesh = tutti.Mesh(tp=2, dp=3)
>>> mesh, mesh.ranks, mesh.coordinates_of(5), mesh.rank_at(tp=1, dp=2)
(Mesh(tp=2, dp=3), 6, {'tp': 1, 'dp': 2}, 5)
>>> mesh.groups("tp")
[RankSet([0, 1]), RankSet([2, 3]), RankSet([4, 5])]
>>> mesh.group("dp", rank=5)
RankSet([1, 3, 5]))doc")
      .def(
          "__init__", [](Mesh* self, const nb::kwargs& sizes) { new (self) Mesh(axes_of(sizes)); },
          "sizes"_a, "Mesh(tp=2, dp=4): a size for each axis, in this order.")
      .def_prop_ro("ranks", &Mesh::ranks, "How many ranks there are: the product of the sizes.")
      .def_prop_ro("axes", &sizes_of, "The size of each axis, by name, the fastest first.")
      .def("coordinates_of", &coordinates_of, "rank"_a, "The coordinate on each axis, by name.")
      .def("rank_at", &rank_at, "coordinates"_a, "The rank at a coordinate for each axis.")
      .def(
          "group",
          [](const Mesh& self, const nb::args& axes, int rank) {
            return self.group(names_of(axes), rank);
          },
          "axes"_a, "rank"_a, "The ranks that agree with `rank` on all axes but these.")
      .def(
          "groups",
          [](const Mesh& self, const nb::args& axes) { return self.groups(names_of(axes)); },
          "axes"_a, "All groups of these axes, by their lowest rank.")
      .def("fold", &fold, "must_match"_a, "sizes"_a, R"doc(Another mesh of the same ranks.

The groups of each axis in `must_match` have to be the same in both (MoE Parallel Folding).

>>> tutti.Mesh(tp=2, cp=2, pp=2).fold(["pp"], etp=1, ep=4, pp=2)
Mesh(etp=1, ep=4, pp=2))doc")
      .def("__eq__", [](const Mesh& self,
                        const Mesh& other) { return text_of_mesh(self) == text_of_mesh(other); })
      .def("__hash__",
           [](const Mesh& self) { return nb::hash(nb::str(text_of_mesh(self).c_str())); })
      .def("__repr__", &text_of_mesh);
}

}  // namespace tutti::python
