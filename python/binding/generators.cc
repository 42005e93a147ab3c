// Generators of timelines: each is one statement.
#include "tutti/runtime/generators.h"

#include <nanobind/stl/pair.h>

#include <utility>
#include <vector>

#include "part.h"
#include "record.h"
#include "tutti/runtime/attention_timelines.h"
#include "tutti/runtime/gnn_pipeline.h"
#include "tutti/runtime/nano.h"
#include "tutti/runtime/ring.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_pipeline(nb::module_& module) {
  planner(module, "pipeline", &pipeline,
          "1F1B, and interleaved with more than one chunk (Megatron-LM, arXiv:2104.04473). Items "
          "are (micro_batch * stages + stage) * 2 + (1 for a backward pass), with stage = chunk * "
          "ranks + rank. With `weights` gradients of weights are passes of their own, which fill "
          "bubbles (ZB-H1 of Zero Bubble, arXiv:2401.10241), with items behind all others.\n\n"
          ">>> tutti.pipeline(ranks=4, micro_batches=8, chunks=2).summary().makespan\n28500000",
          field("ranks", &PipelineSpec::ranks, "of the pipeline"),
          field("micro_batches", &PipelineSpec::micro_batches, "of a step"),
          field("chunks", &PipelineSpec::chunks, "of each rank"),
          field("group", &PipelineSpec::group,
                "micro-batches that run chunk by chunk together; 0: as many as ranks"),
          field("layers", &PipelineSpec::layers, "if given, ranks * chunks divides it"),
          field("forward", &PipelineSpec::forward, "ns of one micro-batch on one rank, all chunks"),
          field("backward", &PipelineSpec::backward, "ns, likewise"),
          field("transfer", &PipelineSpec::transfer, "ns of one message"),
          field("message", &PipelineSpec::message, "bytes"),
          field("activations", &PipelineSpec::activations, "bytes of one micro-batch in one chunk"),
          field("memory", &PipelineSpec::memory, "bytes of a rank; 0: no limit"),
          field("weights", &PipelineSpec::weights,
                "ns of the backward pass that make gradients of weights; 0: no passes for them"),
          field("stage_layers", &PipelineSpec::stage_layers,
                "layers of each stage, whose times are in proportion; []: all are equal"));
}

void add_fsdp(nb::module_& module) {
  planner(module, "fsdp", &fsdp,
          "Sharded data parallelism with prefetch: gathers on comm high, reduce-scatters on comm "
          "low.\n\n>>> tutti.fsdp(ranks=2, layers=4).check()\n[]",
          field("ranks", &FsdpSpec::ranks, "how many ranks there are"),
          field("layers", &FsdpSpec::layers, "of the model"),
          field("prefetch", &FsdpSpec::prefetch, "layers gathered ahead"),
          field("forward", &FsdpSpec::forward, "ns of one layer"),
          field("backward", &FsdpSpec::backward, "ns of one layer"),
          field("gather", &FsdpSpec::gather, "ns of one layer's parameters"),
          field("scatter", &FsdpSpec::scatter, "ns of one layer's gradients"),
          field("layer", &FsdpSpec::layer, "bytes of one layer's parameters, whole"),
          field("memory", &FsdpSpec::memory, "bytes of a rank; 0: no limit"));
}

void add_ddp(nb::module_& module) {
  record<DdpBucket>(module, "DdpBucket", "Gradients that are summed together.",
                    field("backward", &DdpBucket::backward, "ns of the work that makes them"),
                    field("all_reduce", &DdpBucket::all_reduce, "ns"),
                    field("bytes", &DdpBucket::bytes, "of them"));
  planner(module, "ddp", &ddp,
          "Data parallelism with buckets that are summed under the backward pass.\n\n"
          ">>> buckets = [tutti.DdpBucket()] * 3\n"
          ">>> [tutti.ddp(buckets=buckets, overlap=o).summary().makespan for o in (True, False)]\n"
          "[8100000, 10100000]",
          field("ranks", &DdpSpec::ranks, "how many ranks there are"),
          field("forward", &DdpSpec::forward, "ns"), field("step", &DdpSpec::step, "ns"),
          field("buckets", &DdpSpec::buckets, "DdpBucket objects, as the backward pass makes them"),
          field("overlap", &DdpSpec::overlap, "False: sums wait for the whole backward pass"),
          field("chunk", &DdpSpec::chunk, "bytes; longer sums run in pieces"));
}

void add_rings(nb::module_& module) {
  const auto ring_fields = [&module](const char* name, Timeline (*plan)(const RingSpec&),
                                     const char* doc) {
    planner(module, name, plan, doc, field("nodes", &RingSpec::nodes, "how many nodes there are"),
            field("gpus", &RingSpec::gpus, "ranks of a node"),
            field("prologue", &RingSpec::prologue, "ns before the first step"),
            field("compute", &RingSpec::compute, "ns of a step"),
            field("intra", &RingSpec::intra, "ns of a hop within a node"),
            field("inter", &RingSpec::inter, "ns of a hop between nodes"),
            field("block", &RingSpec::block, "bytes that travel"));
  };
  ring_fields("ring", &ring,
              "Ring attention: keys and values go round all ranks. Items are rank * ranks + "
              "step.\n\n"
              ">>> tutti.ring(gpus=4).summary().makespan\n2040000");
  ring_fields("two_level_ring", &two_level_ring,
              "Ring attention with a ring in each node under one over the nodes (MTraining).\n\n"
              ">>> one, two = (f(nodes=2, gpus=4).summary().makespan\n"
              "...             for f in (tutti.ring, tutti.two_level_ring))\n"
              ">>> two < one\nTrue");
}

void add_attention(nb::module_& module) {
  record<AttentionLayer>(
      module, "AttentionLayer", "Times and messages of one nano-batch in one layer.",
      field("before", &AttentionLayer::before, "ns before attention"),
      field("attention", &AttentionLayer::attention, "ns"),
      field("after", &AttentionLayer::after, "ns behind attention"),
      field("enter", &AttentionLayer::enter, "ns of the exchange before attention"),
      field("exit", &AttentionLayer::exit, "ns of the exchange behind it"),
      field("enter_bytes", &AttentionLayer::enter_bytes, "from each rank to each"),
      field("exit_bytes", &AttentionLayer::exit_bytes, "from each rank to each"));
  planner(module, "ping_pong", &ping_pong,
          "Attention of one nano-batch runs under the communication of another (DistCA).\n\n"
          ">>> tutti.ping_pong().check()\n[]",
          field("ranks", &PingPongSpec::ranks, "how many ranks there are"),
          field("layers", &PingPongSpec::layers, "of the model"),
          field("nano_batches", &PingPongSpec::nano_batches, "at least 2"),
          field("layer", &PingPongSpec::layer, "an AttentionLayer"));
  planner(module, "attention_pipeline", &attention_pipeline,
          "A pipeline in which stages without a micro-batch serve attention (DistCA).\n\n"
          ">>> tutti.attention_pipeline(stages=2, attention=[1000] * 4).check()\n[]",
          field("stages", &AttentionPipelineSpec::stages, "one a rank"),
          field("layers", &AttentionPipelineSpec::layers, "of a stage"),
          field("attention", &AttentionPipelineSpec::attention,
                "ns of each micro-batch in one layer, forward"),
          field("layer", &AttentionPipelineSpec::layer, "an AttentionLayer"),
          field("backward", &AttentionPipelineSpec::backward, "times the work of a forward pass"),
          field("transfer", &AttentionPipelineSpec::transfer, "ns of a message between stages"),
          field("message", &AttentionPipelineSpec::message, "bytes"),
          field("activations", &AttentionPipelineSpec::activations, "bytes"),
          field("memory", &AttentionPipelineSpec::memory, "bytes of a rank; 0: no limit"));
}

void add_nano(nb::module_& module) {
  record<NanoOperation>(module, "NanoOperation",
                        "An operation that is cut into ranges of its batch.",
                        field("name", &NanoOperation::name, "for pictures"),
                        field("communicates", &NanoOperation::communicates, "an all_reduce"),
                        field("duration", &NanoOperation::duration, "ns of the whole batch"),
                        field("cuts", &NanoOperation::cuts, "tokens where ranges end"),
                        field("after", &NanoOperation::after, "numbers of earlier operations"));
  planner(module, "nano_batches", &nano_batches,
          "Ranges of operations, so that the network works for one while another is computed "
          "(NanoFlow).\n\n"
          ">>> work = [tutti.NanoOperation(name='matmul', duration=1000, cuts=[512]),\n"
          "...         tutti.NanoOperation(name='sum', communicates=True, duration=1000,\n"
          "...                             cuts=[512], after=[0])]\n"
          ">>> tutti.nano_batches(operations=work).summary().makespan\n1500",
          field("ranks", &NanoSpec::ranks, "how many ranks there are"),
          field("tokens", &NanoSpec::tokens, "of the batch"),
          field("grain", &NanoSpec::grain, "cuts are multiples of it"),
          field("token_bytes", &NanoSpec::token_bytes, "of communication"),
          field("operations", &NanoSpec::operations, "NanoOperation objects"),
          field("overhead", &NanoSpec::overhead, "ns of each range, whatever its length"));
  module.def(
      "search_cuts",
      [](const std::vector<NanoOperation>& operations, int64_t tokens, int64_t grain,
         Nanoseconds overhead, int most_parts) {
        NanoSpec spec;
        spec.operations = operations;
        spec.tokens = tokens;
        spec.grain = grain;
        spec.overhead = overhead;
        NanoSearch search;
        search.most_parts = most_parts;
        const FoundCuts found = search_cuts(spec, search);
        return std::pair(found.spec.operations, found.makespan);
      },
      "operations"_a, "tokens"_a, "grain"_a = 128, "overhead"_a = Nanoseconds(0),
      "most_parts"_a = 4,
      "(operations, makespan): the operations cut so that the whole takes least (NanoFlow).\n\n"
      ">>> work = [tutti.NanoOperation(name='matmul', duration=1000),\n"
      "...         tutti.NanoOperation(name='sum', communicates=True, duration=1000, after=[0])]\n"
      ">>> found, makespan = tutti.search_cuts(work, tokens=1024, overhead=10, most_parts=2)\n"
      ">>> [operation.cuts for operation in found], makespan\n"
      "([[512], [512]], 1530)");
  record<SharePoint>(module, "SharePoint", "How fast communication is with a share of the device.",
                     field("share", &SharePoint::share, "0 to 1"),
                     field("performance", &SharePoint::performance, "of its best, 0 to 1"));
  record<Admission>(module, "Admission", "A share, and what both take with it.",
                    field("share", &Admission::share, "of the device, for communication"),
                    field("time", &Admission::time, "ns of both together"));
  module.def(
      "admit",
      [](const std::vector<SharePoint>& table, Nanoseconds computing, Nanoseconds communication,
         double budget) { return admit(table, computing, communication, budget); },
      "table"_a, "computing"_a, "communication"_a, "budget"_a = 1.0,
      "The share of the table that makes the longer of computing and communication shortest.\n\n"
      ">>> table = [tutti.SharePoint(share=s, performance=p) for s, p in ((.2, .5), (.5, 1.))]\n"
      ">>> tutti.admit(table, 1000, 500).share\n0.2");
  module.def("blocks_of", &blocks_of, "share"_a, "multiprocessors"_a,
             "The thread blocks that a share of a device is, at least 1.\n\n"
             ">>> tutti.blocks_of(0.2, 132)\n26");
}

}  // namespace

void add_generators(nb::module_& module) {
  add_pipeline(module);
  add_fsdp(module);
  add_ddp(module);
  add_rings(module);
  add_attention(module);
  add_nano(module);
  planner(module, "gnn_pipeline", &gnn_pipeline,
          "Layers of a graph network as stages, the graph in chunks (GNNPipe).\n\n"
          ">>> tutti.gnn_pipeline(stages=2, needs=[[1], [0]], vertices=[8, 8]).check()\n[]",
          field("stages", &GnnSpec::stages, "of the pipeline"),
          field("group", &GnnSpec::group, "ranks of a stage"),
          field("layers", &GnnSpec::layers, "of the network"),
          field("epochs", &GnnSpec::epochs, "to run"),
          field("lag", &GnnSpec::lag, "epochs that a needed embedding may be old: 0 or 1"),
          field("needs", &GnnSpec::needs, "the other chunks that each chunk needs"),
          field("vertices", &GnnSpec::vertices, "of each chunk"),
          field("row", &GnnSpec::row, "bytes of an embedding"),
          field("forward", &GnnSpec::forward, "ns of a chunk in a layer"),
          field("backward", &GnnSpec::backward, "ns, likewise"),
          field("transfer", &GnnSpec::transfer, "ns of a chunk's message between stages"),
          field("exchange", &GnnSpec::exchange, "ns between the ranks of a group"),
          field("boundary", &GnnSpec::boundary, "bytes from each rank to each in it"));
}

}  // namespace tutti::python
