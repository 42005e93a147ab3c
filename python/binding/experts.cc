// Index lists of a mixture of experts, and buckets of ragged tensors.
#include "tutti/runtime/moe_index.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "failure.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/counters.h"
#include "tutti/runtime/ragged_fsdp.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

using IntArray = nb::ndarray<nb::numpy, const int32_t, nb::ndim<1>>;

/// A list as an array that looks at it, and keeps its owner alive.
template <std::vector<int32_t> DispatchIndex::*list>
IntArray view(nb::object self) {
  const std::vector<int32_t>& values = nb::cast<const DispatchIndex&>(self).*list;
  return IntArray(values.data(), {values.size()}, self);
}

void add_index(nb::module_& module) {
  nb::class_<DispatchIndex>(module, "DispatchIndex",
                            "Which token goes to which expert; its lists are int32 arrays.")
      .def_ro("tokens", &DispatchIndex::tokens, "Of this rank.")
      .def_ro("k", &DispatchIndex::k, "Experts of a token.")
      .def_ro("experts", &DispatchIndex::experts, "How many there are.")
      .def_prop_ro("rows", &DispatchIndex::rows, "Rows that are sent.")
      .def_prop_ro("token_of_row", &view<&DispatchIndex::token_of_row>, "Rows are by expert.")
      .def_prop_ro("expert_offsets", &view<&DispatchIndex::expert_offsets>,
                   "experts + 1 numbers: where each one's rows begin.")
      .def_prop_ro("expert_of_slot", &view<&DispatchIndex::expert_of_slot>,
                   "Slot t * k + j is the j-th choice of token t.")
      .def_prop_ro("row_of_slot", &view<&DispatchIndex::row_of_slot>, "-1: dropped.")
      .def("count_of", &DispatchIndex::count_of, "expert"_a, "Rows of an expert.");
  module.def(
      "build_index",
      [](const Integers& topk, int k, int experts, int64_t capacity) {
        return build_index(topk.narrow32(), k, experts, capacity);
      },
      "topk"_a, "k"_a, "experts"_a, "capacity"_a = kDropless,
      "The lists of topk[t * k + j], the j-th expert of token t, in token order (MoEBlaze). Each "
      "expert gets at most `capacity` rows; -1: all.\n\n"
      ">>> index = tutti.build_index([1, 0, 1], k=1, experts=2)\n"
      ">>> index.token_of_row.tolist(), index.expert_offsets.tolist()\n"
      "([1, 0, 2], [0, 1, 3])");
  module.def("expert_capacity", &expert_capacity, "factor"_a, "tokens"_a, "k"_a, "experts"_a,
             "Rows of an expert that a factor leaves room for.\n\n"
             ">>> tutti.expert_capacity(1.25, 64, 2, 8)\n20");
  module.def(
      "load_balance_loss",
      [](const Integers& counts, const std::vector<double>& mean_probability,
         const std::optional<Integers>& own_counts, double local) {
        if (!own_counts) return load_balance_loss(counts.values, mean_probability);
        return load_balance_loss(counts.values, own_counts->values, mean_probability, local);
      },
      "counts"_a, "mean_probability"_a, "own_counts"_a = nb::none(), "local"_a = 0.01,
      "N * sum of f_i P_i over the N experts, f_i the share of selections, P_i the router's mean "
      "probability. With `own_counts`, those of the micro-batch alone, `local` times its own loss "
      "is "
      "added (Demons in the Detail).\n\n"
      ">>> tutti.load_balance_loss([2, 2], [0.5, 0.5])\n1.0");
}

void add_buckets(nb::module_& module) {
  record<BucketTensor>(module, "BucketTensor", "A tensor of a bucket.",
                       field("elements", &BucketTensor::elements, "of it"),
                       field("block", &BucketTensor::block, "it is cut only at multiples of it"));
  record<BucketPlan>(module, "BucketPlan", "Where tensors lie in a buffer of equal shares.",
                     field("ranks", &BucketPlan::ranks, "how many ranks there are"),
                     field("share", &BucketPlan::share, "elements of each rank"),
                     field("offsets", &BucketPlan::offsets, "of each tensor in the whole buffer"),
                     field("tensors", &BucketPlan::tensors, "BucketTensor objects"))
      .def_prop_ro("padding", &BucketPlan::padding, "Elements that are no tensor's.");
  module.def(
      "plan_bucket",
      [](const std::vector<BucketTensor>& tensors, int ranks, int64_t align) {
        return plan_bucket(tensors, ranks, align);
      },
      "tensors"_a, "ranks"_a, "align"_a = 1,
      "The smallest share, a multiple of `align`, such that no share ends inside a block "
      "(veScale-FSDP).\n\n"
      ">>> plan = tutti.plan_bucket([tutti.BucketTensor(elements=6, block=3),\n"
      "...                           tutti.BucketTensor(elements=4, block=2)], ranks=2)\n"
      ">>> plan.share, plan.offsets, plan.padding\n(6, [0, 6], 2)");
  module.def(
      "ragged_block",
      [](const Integers& shape, const Integers& ragged_dims, int64_t rows) {
        return ragged_block(shape.values, ragged_dims.narrow(), rows);
      },
      "shape"_a, "ragged_dims"_a, "rows"_a,
      "The block of a tensor that is ragged along its first dimensions, cut at `rows` entries.\n\n"
      ">>> tutti.ragged_block([8, 4], [0], rows=2)\n8");
  module.def(
      "choose_roots",
      [](const Integers& costs, int ranks) { return choose_roots(costs.values, ranks); }, "costs"_a,
      "ranks"_a,
      "A rank for each matrix where it is updated as a whole (Muon), balanced.\n\n"
      ">>> tutti.choose_roots([3, 1, 2], ranks=2)\n[0, 1, 1]");
  module.def("tensor_sharding", &tensor_sharding, "plan"_a, "tensor"_a,
             "Which ranks hold a bucket's tensor, and where in their shares.\n\n"
             ">>> plan = tutti.plan_bucket([tutti.BucketTensor(elements=4)], ranks=2)\n"
             ">>> [s.length for s in tutti.tensor_sharding(plan, 0).shards]\n[2, 2]");
}

}  // namespace

void add_experts(nb::module_& module) {
  add_index(module);
  add_buckets(module);
}

}  // namespace tutti::python
