// Embedding tables over ranks.
//
// Owns: a set of tables keeps its communicator's Python object alive; the communicator should be
//       open until the tables are gone.
#include "tutti/runtime/embedding.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "communicator.h"
#include "failure.h"
#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

using FloatRows = nb::ndarray<nb::numpy, float, nb::ndim<2>>;
using IdsAndOffsets = std::vector<std::pair<Integers, Integers>>;

/// An array of its own memory, of rows * width zeros.
FloatRows new_rows(int64_t rows, int64_t width) {
  auto memory = std::make_unique<float[]>(static_cast<size_t>(rows * width));
  float* data = memory.get();
  const nb::capsule owner(memory.release(),
                          [](void* held) noexcept { delete[] static_cast<float*>(held); });
  return {data, {static_cast<size_t>(rows), static_cast<size_t>(width)}, owner};
}

Buffer floats(Buffer buffer, const char* call, const char* argument) {
  if (buffer.type == tuttiFloat32) return buffer;
  refuse(std::string(call) + ": " + argument + " is " + buffer.text() + "; pass float32");
}

/// The runtime's tables, with arrays that are checked.
class Tables {
 public:
  Tables(nb::object communicator, EmbeddingSpec spec)
      : owner_(std::move(communicator)), comm_(nb::cast<Communicator&>(owner_)) {
    const tuttiComm_t handle = comm_.handle();
    comm_.run([&] { tables_ = std::make_unique<EmbeddingTables>(handle, std::move(spec)); });
  }
  ~Tables() { end_part(comm_, tables_); }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  std::vector<FloatRows> forward(const IdsAndOffsets& batch) {
    const std::vector<Bags> bags = bags_of(batch);
    std::vector<FloatRows> pooled = room_for(samples_of(batch));
    comm_.handle();
    comm_.run([&] { tables_->forward(bags, views(pooled)); });
    return pooled;
  }
  void prefetch(const IdsAndOffsets& batch) {
    const std::vector<Bags> bags = bags_of(batch);
    comm_.handle();
    comm_.run([&] { tables_->prefetch(bags); });
    next_samples_ = samples_of(batch);
  }
  std::vector<FloatRows> finish() {
    std::vector<FloatRows> pooled = room_for(next_samples_);
    comm_.handle();
    comm_.run([&] { tables_->finish(views(pooled)); });
    return pooled;
  }
  void backward(const nb::list& gradients) {
    std::vector<Buffer> buffers;
    std::vector<std::span<const float>> spans;
    for (nb::handle array : gradients) {
      buffers.push_back(
          floats(readable(array, "backward", "a gradient"), "backward", "a gradient"));
      const Buffer& buffer = buffers.back();
      spans.emplace_back(static_cast<const float*>(buffer.data), static_cast<size_t>(buffer.count));
    }
    comm_.handle();
    comm_.run([&] { tables_->backward(spans); });
  }
  void load(int table, nb::handle array) {
    const Buffer buffer = floats(readable(array, "load", "values"), "load", "values");
    tables_->load(table,
                  {static_cast<const float*>(buffer.data), static_cast<size_t>(buffer.count)});
  }
  void save(int table, nb::handle array) const {
    const Buffer buffer = floats(writable(array, "save", "values"), "save", "values");
    tables_->save(table, {static_cast<float*>(buffer.data), static_cast<size_t>(buffer.count)});
  }
  std::vector<int64_t> collisions(int shard) const { return tables_->collisions(shard); }
  const TablePlan& plan() const { return tables_->plan(); }
  EmbeddingCounters counters() const { return tables_->counters(); }

 private:
  static std::vector<Bags> bags_of(const IdsAndOffsets& batch) {
    std::vector<Bags> bags;
    for (const auto& [ids, offsets] : batch) bags.push_back({ids.values, offsets.values});
    return bags;
  }
  /// The tables refuse a batch whose offsets differ in number or are none.
  static int64_t samples_of(const IdsAndOffsets& batch) {
    if (batch.empty() || batch[0].second.values.empty()) return 0;
    return static_cast<int64_t>(batch[0].second.values.size()) - 1;
  }
  std::vector<FloatRows> room_for(int64_t samples) const {
    std::vector<FloatRows> pooled;
    for (const EmbeddingTable& table : plan().tables) {
      pooled.push_back(new_rows(samples, table.width));
    }
    return pooled;
  }
  static std::vector<std::span<float>> views(std::vector<FloatRows>& pooled) {
    std::vector<std::span<float>> spans;
    for (FloatRows& rows : pooled) spans.emplace_back(rows.data(), rows.size());
    return spans;
  }

  nb::object owner_;
  Communicator& comm_;
  std::unique_ptr<EmbeddingTables> tables_;
  int64_t next_samples_ = 0;
};

/// A choice of the optimizer that can be copied.
struct RowRule {
  std::shared_ptr<const RowOptimizer> optimizer;
};

void add_table_sharding(nb::module_& module) {
  nb::enum_<TableCut>(module, "TableCut", "How an embedding table is cut.")
      .value("AUTO", TableCut::kAuto, "Only where it is too large for one rank.")
      .value("WHOLE", TableCut::kWhole, "Not at all.")
      .value("ROWS", TableCut::kRows, "Into runs of rows.")
      .value("COLUMNS", TableCut::kColumns, "Into runs of columns.");
  record<EmbeddingTable>(module, "EmbeddingTable", "A table of rows of float32.",
                         field("name", &EmbeddingTable::name, "for messages"),
                         field("rows", &EmbeddingTable::rows, "ids are below it"),
                         field("width", &EmbeddingTable::width, "values of a row"),
                         field("pooling", &EmbeddingTable::pooling, "ids of a sample, on average"),
                         field("cut", &EmbeddingTable::cut, "a TableCut"),
                         field("parts", &EmbeddingTable::parts, "of a cut; 0: the plan chooses"));
  record<TableShard>(module, "TableShard", "Rows and columns of a table on a rank.",
                     field("table", &TableShard::table, "its number"),
                     field("rank", &TableShard::rank, "where it lies"),
                     field("row_begin", &TableShard::row_begin, "its first row"),
                     field("row_end", &TableShard::row_end, "one behind its last row"),
                     field("column_begin", &TableShard::column_begin, "its first column"),
                     field("column_end", &TableShard::column_end, "one behind its last column"),
                     field("cost", &TableShard::cost, "ns of a step"),
                     field("memory", &TableShard::memory, "bytes"));
  record<TablePlan>(module, "TablePlan", "Which rank has which shard of which table.",
                    field("ranks", &TablePlan::ranks, "that have shards"),
                    field("tables", &TablePlan::tables, "EmbeddingTable objects"),
                    field("shards", &TablePlan::shards, "by table, first column and first row"));
  module.def(
      "plan_tables",
      [](const std::vector<EmbeddingTable>& tables, int ranks, int64_t batch, Bytes memory,
         int64_t state_of_row, int64_t column_align, double memory_rate, double link_rate) {
        TableShardingSpec spec;
        spec.ranks = ranks;
        spec.batch = batch;
        spec.memory = memory;
        spec.state_of_row = state_of_row;
        spec.column_align = column_align;
        spec.memory_rate = memory_rate;
        spec.link_rate = link_rate;
        return plan_tables(tables, spec);
      },
      "tables"_a, nb::kw_only(), "ranks"_a, "batch"_a, "memory"_a = Bytes(kNoLimit),
      "state_of_row"_a = 1, "column_align"_a = 4, "memory_rate"_a = 10.0, "link_rate"_a = 10.0,
      "A TablePlan: tables whole, by rows or by columns, the most expensive first on the least "
      "loaded rank with `memory` bytes of room (ZionEX, arXiv:2104.05158). `batch` is of all ranks "
      "together, rates are bytes a nanosecond.\n\n"
      ">>> users = tutti.EmbeddingTable(name='users', rows=1000, width=64, pooling=10)\n"
      ">>> tags = tutti.EmbeddingTable(name='tags', rows=50, width=8)\n"
      ">>> plan = tutti.plan_tables([users, tags], ranks=2, batch=512)\n"
      ">>> [(s.table, s.rank, s.column_end - s.column_begin) for s in plan.shards]\n"
      "[(0, 0, 32), (0, 1, 32), (1, 0, 8)]");
  module.def("check_tables", &check_tables, "plan"_a,
             "Raises InvalidInput unless every value of every table has exactly one shard.\n\n"
             ">>> tutti.check_tables(tutti.plan_tables([tutti.EmbeddingTable(name='t')], ranks=1, "
             "batch=1))");
  module.def("on_fewer_ranks", &on_fewer_ranks, "plan"_a, "ranks"_a,
             "The same cuts on fewer ranks, which give the same bits.\n\n"
             ">>> plan = tutti.plan_tables([tutti.EmbeddingTable(name='t', rows=8)], ranks=2, "
             "batch=1)\n"
             ">>> tutti.on_fewer_ranks(plan, 1).ranks\n1");
}

void add_optimizers(nb::module_& module) {
  nb::class_<RowRule>(module, "RowOptimizer", "How gradients change rows of embedding tables.");
  module.def(
      "row_sgd", [](float rate) { return RowRule{row_sgd(rate)}; }, "rate"_a,
      "row -= rate * gradient.\n\n>>> type(tutti.row_sgd(0.1)).__name__\n'RowOptimizer'");
  module.def(
      "rowwise_adagrad",
      [](float rate, float epsilon) { return RowRule{rowwise_adagrad(rate, epsilon)}; }, "rate"_a,
      "epsilon"_a = 1e-8F,
      "One state a row: state += mean(gradient^2), row -= rate * gradient / (sqrt(state) + "
      "epsilon).\n\n>>> type(tutti.rowwise_adagrad(0.1)).__name__\n'RowOptimizer'");
}

Pooling pooling_named(const std::string& name) {
  if (name == "sum") return Pooling::kSum;
  if (name == "mean") return Pooling::kMean;
  refuse("EmbeddingTables: pooling is '" + name + "'; pass sum or mean");
}

constexpr const char* kTablesDoc = R"doc(Embedding tables that are sharded over ranks.

A batch is a pair (ids, offsets) for each table: ids[offsets[s]:offsets[s + 1]] are those of sample
s, whose rows are summed (or averaged: `pooling`). Every call is made by all ranks. Results depend
on how the plan cuts tables, and not on ranks. float16 wires refuse what they cannot carry, unless
`saturate` is set. Rows lie in memory of the host; other stores are for C++.

>>> import numpy
>>> plan = tutti.plan_tables([tutti.EmbeddingTable(name='t', rows=4, width=4)], ranks=2, batch=2)
>>> def main(comm):
...     tables = tutti.EmbeddingTables(comm, plan, tutti.row_sgd(1.0))
...     tables.load(0, numpy.arange(16, dtype='float32').reshape(4, 4))
...     x, = tables.forward([([comm.rank, 3], [0, 2])])        # one sample on each rank
...     tables.backward([numpy.ones((1, 4), 'float32')])
...     y, = tables.forward([([comm.rank, 3], [0, 2])])
...     return x.tolist(), y.tolist()                           # row 3 was updated by both
>>> tutti.run(main, ranks=2)[1]
([[16.0, 18.0, 20.0, 22.0]], [[13.0, 15.0, 17.0, 19.0]]))doc";

void add_tables(nb::module_& module) {
  record<EmbeddingCounters>(
      module, "EmbeddingCounters", "Of embedding tables.",
      field("collision_rows", &EmbeddingCounters::collision_rows, "of prefetches, on this rank"),
      field("next_rows", &EmbeddingCounters::next_rows, "rows of prefetched batches, all of them"),
      field("urgent", &EmbeddingCounters::urgent, "bytes that somebody waited for"),
      field("behind", &EmbeddingCounters::behind, "bytes that other work hides"));
  nb::class_<Tables>(module, "EmbeddingTables", kTablesDoc)
      .def(
          "__init__",
          [](Tables* self, nb::object comm, const TablePlan& plan, const RowRule& optimizer,
             const std::string& pooling, const char* forward_wire, const char* backward_wire,
             bool saturate) {
            new (self) Tables(std::move(comm), {plan,
                                                pooling_named(pooling),
                                                type_named(forward_wire),
                                                type_named(backward_wire),
                                                saturate,
                                                optimizer.optimizer,
                                                {}});
          },
          "comm"_a, "plan"_a, "optimizer"_a, nb::kw_only(), "pooling"_a = "sum",
          "forward_wire"_a = "bfloat16", "backward_wire"_a = "float32", "saturate"_a = false)
      .def("forward", &Tables::forward, "batch"_a,
           "Looks up a batch: an array of samples x width for each table.")
      .def("backward", &Tables::backward, "gradients"_a,
           "Updates the rows of the last batch by the gradients of what it gave, an array a table.")
      .def("prefetch", &Tables::prefetch, "batch"_a,
           "Begins the lookups of the next batch, between forward() and backward(). Rows that both "
           "batches touch are read after their update (FreeScale, arXiv:2604.24073).")
      .def("finish", &Tables::finish,
           "Ends the update, and gives the prefetched batch's arrays: those of forward().")
      .def("collisions", &Tables::collisions, "shard"_a,
           "Rows that a shard of this rank has in both batches, between prefetch() and finish().")
      .def("load", &Tables::load, "table"_a, "values"_a,
           "Takes this rank's shards out of all values of a table, rows x width.")
      .def("save", &Tables::save, "table"_a, "values"_a,
           "Writes this rank's shards to their places of such an array.")
      .def_prop_ro("plan", &Tables::plan, "The TablePlan.")
      .def_prop_ro("counters", &Tables::counters, "EmbeddingCounters.");
}

}  // namespace

void add_embeddings(nb::module_& module) {
  add_table_sharding(module);
  add_optimizers(module);
  add_tables(module);
}

}  // namespace tutti::python
