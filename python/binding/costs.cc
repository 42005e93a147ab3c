// Costs of work and transfers, and what is chosen by them: layouts and memory.
#include "tutti/runtime/cost.h"

#include "part.h"
#include "record.h"
#include "tutti/runtime/layouts.h"
#include "tutti/runtime/memory_plan.h"
#include "tutti/runtime/narrow.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_machines(nb::module_& module) {
  record<LinkClass>(module, "LinkClass", "What a link costs.",
                    field("latency", &LinkClass::latency, "ns of a message"),
                    field("bytes_per_ns", &LinkClass::bytes_per_ns, "GB/s"));
  record<MachineLevel>(module, "MachineLevel", "One level of a nested machine.",
                       field("size", &MachineLevel::size, "places of the level below in one"),
                       field("link", &MachineLevel::link, "a LinkClass"));
  nb::class_<Machine>(module, "Machine", R"doc(A machine as levels, the innermost first.

>>> node = tutti.MachineLevel(size=8, link=tutti.LinkClass(latency=2000, bytes_per_ns=400))
>>> net = tutti.MachineLevel(size=4, link=tutti.LinkClass(latency=9000, bytes_per_ns=50))
>>> machine = tutti.Machine([node, net], ranks=32)
>>> machine.span_of(tutti.RankSet([0, 1])), machine.span_of(tutti.RankSet([0, 8]))
(0, 1))doc")
      .def(nb::init<std::vector<MachineLevel>, int>(), "levels"_a, "ranks"_a)
      .def_prop_ro("ranks", &Machine::ranks, "The product of the sizes.")
      .def("span_of", &Machine::span_of, "group"_a, "The lowest level that holds the group.")
      .def("places_touched", &Machine::places_touched, "group"_a, "level"_a,
           "How many places of a level the group touches.");
  module.def("message_time", &message_time, "link"_a, "bytes"_a,
             "ns of a message.\n\n"
             ">>> tutti.message_time(tutti.LinkClass(latency=500, bytes_per_ns=2), 1000)\n1000");
  module.def("collective_time", &collective_time, "machine"_a, "group"_a, "kind"_a, "bytes"_a,
             "ns of a collective by rings over the group's slowest links; bytes of the whole "
             "buffer.\n\n"
             ">>> level = tutti.MachineLevel(size=4, link=tutti.LinkClass(bytes_per_ns=1))\n"
             ">>> tutti.collective_time(tutti.Machine([level], 4), tutti.RankSet([0, 1, 2, 3]),\n"
             "...                       tutti.TaskKind.all_reduce, 1000)\n1500");
  module.def("causal_work", &causal_work, "queries"_a, "keys"_a,
             "Query-key pairs under a causal mask, for rows of which the last attends to all "
             "keys.\n\n>>> tutti.causal_work(4, 4), tutti.causal_work(2, 4)\n(10, 7)");
  record<AttentionShape>(module, "AttentionShape", "The heads of attention in one layer.",
                         field("q_heads", &AttentionShape::q_heads, "of queries"),
                         field("kv_heads", &AttentionShape::kv_heads, "of keys"),
                         field("head_dim", &AttentionShape::head_dim, "numbers of a head"));
}

void add_layouts(nb::module_& module) {
  record<ModelShape>(module, "ModelShape", "A transformer.",
                     field("layers", &ModelShape::layers, "of it"),
                     field("hidden", &ModelShape::hidden, "its width"),
                     field("heads", &ModelShape::heads, "of attention"),
                     field("length", &ModelShape::length, "tokens of a sequence"),
                     field("vocabulary", &ModelShape::vocabulary, "tokens that there are"),
                     field("fused_attention", &ModelShape::fused_attention, "keeps no scores"))
      .def_prop_ro("parameters", &ModelShape::parameters, "12 layers hidden^2 + vocabulary hidden.")
      .def_prop_ro("flops_per_token", &ModelShape::flops_per_token, "Forward and backward.");
  record<TrainingRun>(module, "TrainingRun", "A step and the ranks that do it.",
                      field("batch", &TrainingRun::batch, "sequences of a step"),
                      field("flops_per_ns", &TrainingRun::flops_per_ns, "of a rank, at its peak"),
                      field("efficiency", &TrainingRun::efficiency, "of computing, 0 to 1"),
                      field("memory", &TrainingRun::memory, "bytes of a rank"));
  record<LayoutChoice>(module, "LayoutChoice", "One way to divide, and its price.",
                       field("tensor", &LayoutChoice::tensor, "ranks"),
                       field("pipeline", &LayoutChoice::pipeline, "ranks"),
                       field("data", &LayoutChoice::data, "replicas"),
                       field("micro_batch", &LayoutChoice::micro_batch, "sequences"),
                       field("checkpointed", &LayoutChoice::checkpointed, "recomputes"),
                       field("micro_batches", &LayoutChoice::micro_batches, "of each replica"),
                       field("step", &LayoutChoice::step, "ns"),
                       field("memory", &LayoutChoice::memory, "bytes of a rank"),
                       field("mfu", &LayoutChoice::mfu, "of the peak"),
                       field("bubble", &LayoutChoice::bubble, "(pipeline - 1) / micro_batches"));
  record<LayoutSearch>(module, "LayoutSearch", "All ways that fit, the fastest first.",
                       field("ranked", &LayoutSearch::ranked, "LayoutChoice objects"),
                       field("candidates", &LayoutSearch::candidates, "that were tried"),
                       field("refused", &LayoutSearch::refused, "reasons, with their numbers"));
  module.def("search_layouts", &search_layouts, "model"_a, "run"_a, "machine"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Every mix of tensor, pipeline and data parallelism that divides and fits, by its "
             "price. It ranks; it does not predict.\n\n"
             ">>> node = tutti.MachineLevel(size=8, link=tutti.LinkClass(bytes_per_ns=300))\n"
             ">>> net = tutti.MachineLevel(size=4, link=tutti.LinkClass(bytes_per_ns=25))\n"
             ">>> model = tutti.ModelShape(layers=40, hidden=5120, heads=40, length=2048,\n"
             "...                          vocabulary=51200)\n"
             ">>> run = tutti.TrainingRun(batch=256, flops_per_ns=312e3, memory=80 << 30)\n"
             ">>> best = tutti.search_layouts(model, run, tutti.Machine([node, net], "
             "32)).ranked[0]\n"
             ">>> best.tensor * best.pipeline * best.data\n32");
}

void add_memory_records(nb::module_& module) {
  record<MemoryBlock>(module, "MemoryBlock", "A block of a model, for chunked_step().",
                      field("chunks", &MemoryBlock::chunks, "of its own parameters"),
                      field("forward", &MemoryBlock::forward, "ns"),
                      field("backward", &MemoryBlock::backward, "ns"),
                      field("swap", &MemoryBlock::swap, "ns of its activations, one way"),
                      field("activations", &MemoryBlock::activations, "bytes"),
                      field("input", &MemoryBlock::input, "bytes left if they are recomputed"),
                      field("transient", &MemoryBlock::transient, "bytes while a pass runs"));
  record<ChunkCosts>(module, "ChunkCosts", "What a chunk of state costs.",
                     field("parameters", &ChunkCosts::parameters, "bytes of a chunk"),
                     field("states", &ChunkCosts::states, "bytes of one that persists"),
                     field("upload", &ChunkCosts::upload, "ns of a rank's share, from the host"),
                     field("gather", &ChunkCosts::gather, "ns"),
                     field("scatter", &ChunkCosts::scatter, "ns"),
                     field("offload", &ChunkCosts::offload, "ns"),
                     field("device_update", &ChunkCosts::device_update, "ns"),
                     field("host_update", &ChunkCosts::host_update, "ns"));
  record<MemoryModel>(module, "MemoryModel", "A model as ProTrain sees it.",
                      field("blocks", &MemoryModel::blocks, "MemoryBlock objects"),
                      field("costs", &MemoryModel::costs, "ChunkCosts"));
  record<MemoryPlan>(module, "MemoryPlan", "What stays on the device.",
                     field("persist", &MemoryPlan::persist, "chunks"),
                     field("buffers", &MemoryPlan::buffers, "of a chunk"),
                     field("swap", &MemoryPlan::swap, "blocks"),
                     field("recompute", &MemoryPlan::recompute, "blocks"));
  record<MemoryVerdict>(module, "MemoryVerdict", "What a MemoryPlan costs.",
                        field("time", &MemoryVerdict::time, "ns of an iteration"),
                        field("peak", &MemoryVerdict::peak, "bytes"));
}

void add_memory(nb::module_& module) {
  add_memory_records(module);
  module.def(
      "judge", [](const MemoryModel& model, const MemoryPlan& plan) { return judge(model, plan); },
      "model"_a, "plan"_a, "The time and the peak of a memory plan.");
  module.def("search_memory", &search_memory, "model"_a, "limit"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "The fastest plan within `limit` bytes (ProTrain); Infeasible names the least that "
             "works.\n\n"
             ">>> blocks = [tutti.MemoryBlock(activations=100, input=10, swap=10**6)] * 4\n"
             ">>> model = tutti.MemoryModel(blocks=blocks, costs=tutti.ChunkCosts())\n"
             ">>> tutti.search_memory(model, limit=250)\n"
             "MemoryPlan(persist=4, buffers=0, swap=2, recompute=0)");
  module.def(
      "activation_places",
      [](const MemoryModel& model, const MemoryPlan& plan) {
        static constexpr const char* kNames[] = {"device", "host", "recomputed"};
        std::vector<std::string> names;
        for (const ActivationPlace place : places_of(model, plan)) {
          names.emplace_back(kNames[static_cast<int>(place)]);
        }
        return names;
      },
      "model"_a, "plan"_a,
      "Where a plan has each block's activations: \"device\", \"host\" or \"recomputed\".\n\n"
      ">>> blocks = [tutti.MemoryBlock(activations=100, input=10, swap=10**6)] * 4\n"
      ">>> model = tutti.MemoryModel(blocks=blocks, costs=tutti.ChunkCosts())\n"
      ">>> tutti.activation_places(model, tutti.search_memory(model, limit=250))\n"
      "['host', 'host', 'device', 'device']");
  module.def("chunked_step", &chunked_step, "model"_a, "plan"_a, "ranks"_a,
             "One step of a memory plan as a Timeline.\n\n"
             ">>> costs = tutti.ChunkCosts(parameters=2)\n"
             ">>> model = tutti.MemoryModel(blocks=[tutti.MemoryBlock()] * 2, costs=costs)\n"
             ">>> plan = tutti.search_memory(model, limit=100)\n"
             ">>> tutti.chunked_step(model, plan, ranks=2).check()\n[]");
  module.def(
      "dispatch_volume",
      [](int64_t sequences, int64_t length, int64_t layers, int64_t hidden, int64_t k,
         int64_t ranks) {
        return dispatch_volume({sequences, length, layers, hidden, k, ranks});
      },
      nb::kw_only(), "sequences"_a, "length"_a, "layers"_a, "hidden"_a, "k"_a, "ranks"_a,
      "Bytes that all ranks of a mixture of experts send in one step, in bfloat16: 8 b s l h k "
      "(ranks - 1) / ranks.\n\n"
      ">>> tutti.dispatch_volume(sequences=1, length=8, layers=1, hidden=4, k=2, ranks=2)\n256");
}

}  // namespace

void add_costs(nb::module_& module) {
  add_machines(module);
  add_layouts(module);
  add_memory(module);
}

}  // namespace tutti::python
