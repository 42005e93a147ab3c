// Objects that move data by plans: exchanges, counters, rows of experts, buckets.
//
// Owns: each object keeps its communicator's Python object alive; the communicator should be open
//       until the object is gone. Objects whose end waits for other ranks let Python go on
//       meanwhile, since those ranks may be threads of it.
#include <nanobind/stl/optional.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "communicator.h"
#include "failure.h"
#include "on_stream.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/counters.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/narrow.h"
#include "tutti/runtime/partial_softmax.h"
#include "tutti/runtime/ragged_fsdp.h"
#include "tutti/runtime/row_dispatch.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void expect_size(const char* call, const char* argument, const Buffer& buffer, int64_t elements) {
  if (buffer.count == elements) return;
  refuse(std::string(call) + ": " + argument + " is " + buffer.text() + ", and the plan needs " +
         std::to_string(elements) + " elements on this rank");
}

/// An exchange of rows of one type, agreed on by the ranks of each communicator at its first use.
class Mover {
 public:
  Mover(const Resharding& plan, const char* type, int64_t row, const std::string& reduce)
      : type_(type_named(type)), row_(row) {
    if (row < 1) refuse("Exchange: row is the number of elements that move together, at least 1");
    Bytes element(bytes_of(type_) * row);
    if (reduce == "sum") {
      if (row != 1) {
        refuse("Exchange: sums add single elements; leave row out, and plan in elements");
      }
      reduction_ = sum_of(type_);
    } else if (reduce == "merge") {
      // The lse is a float at least, which takes the place of two elements of 16 bits.
      const int64_t lse = bytes_of(type_) == 2 ? 2 : 1;
      reduction_ = merge_rows(type_, static_cast<int>(row - lse));
    } else if (!reduce.empty()) {
      refuse("Exchange: reduce is '" + reduce + "'; pass sum, merge, or nothing");
    }
    exchange_ = std::make_unique<Exchange>(plan, element, reduction_.get());
    fingerprint_ = fingerprint(plan);
  }

  void run(nb::object communicator, nb::handle source, nb::handle target) {
    Communicator& comm = nb::cast<Communicator&>(communicator);
    const tuttiComm_t handle = comm.handle();
    const Resharding& plan = exchange_->resharding();
    if (comm.ranks() != plan.ranks) {
      refuse("Exchange: the plan has " + std::to_string(plan.ranks) + " ranks, the communicator " +
             std::to_string(comm.ranks()));
    }
    const Buffer from = readable(source, "Exchange", "source", Where::kStream);
    const Buffer to = writable(target, "Exchange", "target", Where::kStream);
    expect_type("source", from);
    expect_type("target", to);
    const size_t rank = static_cast<size_t>(comm.rank());
    expect_size("Exchange", "source", from, plan.source_sizes[rank] * row_);
    expect_size("Exchange", "target", to, plan.target_sizes[rank] * row_);
    const bool first = agreed_with_ != handle;
    const tuttiStream_t stream = current_stream();
    comm.run([&] {
      if (first) agree(handle, fingerprint_, "Exchange");
      exchange_->run(handle, from.data, to.data, stream);
    });
    agreed_with_ = handle;
  }

  const char* way() const {
    switch (exchange_->way()) {
      case ExchangeWay::kAllGather:
        return "all_gather";
      case ExchangeWay::kReduceScatter:
        return "reduce_scatter";
      case ExchangeWay::kAllToAll:
        return "all_to_all";
      case ExchangeWay::kRounds:
        return "rounds";
    }
    return "";
  }

 private:
  void expect_type(const char* argument, const Buffer& buffer) const {
    if (buffer.type == type_) return;
    refuse(std::string("Exchange: ") + argument + " is " + buffer.text() +
           ", and the exchange was made for " + name_of(type_));
  }

  tuttiDataType_t type_;
  int64_t row_;
  uint64_t fingerprint_ = 0;
  std::unique_ptr<Reduction> reduction_;
  std::unique_ptr<Exchange> exchange_;
  tuttiComm_t agreed_with_ = nullptr;
};

void add_exchange(nb::module_& module) {
  nb::class_<Mover>(module, "Exchange", R"doc(Runs a Resharding on arrays.

It takes the cheapest way that fits.

`row` elements of `dtype` move together. `reduce` combines what arrives at one place from several
ranks: "sum" adds floating types, those of 16 bits in float32, rounded once; "merge" merges partial
softmax results, whose rows are outputs and a log of a sum of exponentials behind them (behind
outputs of 16 bits as a float32, which is two elements). Ranks compare their plans before the first
byte; where these differ, RanksDiffer names the ranks.

>>> import numpy
>>> plan = tutti.reshard(tutti.even(8, 2), tutti.zigzag(8, 2))
>>> def main(comm):
...     x = numpy.arange(4.0) + 4 * comm.rank
...     y = numpy.zeros(4)
...     tutti.Exchange(plan, dtype="float64").run(comm, x, y)
...     return y.tolist()
>>> tutti.run(main, ranks=2)
[[0.0, 1.0, 6.0, 7.0], [2.0, 3.0, 4.0, 5.0]])doc")
      .def(
          "__init__",
          [](Mover* self, const Resharding& plan, const char* dtype, int64_t row,
             const std::string& reduce) { new (self) Mover(plan, dtype, row, reduce); },
          "plan"_a, "dtype"_a = "float32", "row"_a = 1, "reduce"_a = "")
      .def("run", &Mover::run, "comm"_a, "source"_a, "target"_a,
           "Every rank of `comm` calls it. Arrays have source_sizes[rank] * row and "
           "target_sizes[rank] * row elements. They may be one array only where the way is a "
           "collective in place.")
      .def_prop_ro("way", &Mover::way, "all_gather, reduce_scatter, all_to_all or rounds.");
  module.def(
      "agree",
      [](Communicator& comm, uint64_t number, const char* what) {
        const tuttiComm_t handle = comm.handle();
        comm.run([&] { agree(handle, number, what); });
      },
      "comm"_a, "fingerprint"_a, "what"_a,
      "Raises RanksDiffer, naming ranks, if ranks pass different fingerprints of their plans.\n\n"
      ">>> plan = tutti.pipeline(ranks=2)\n"
      ">>> tutti.run(lambda comm: tutti.agree(comm, plan.fingerprint, 'pipeline'), ranks=2)\n"
      "[None, None]");
}

/// Counters of all ranks.
class Sync {
 public:
  Sync(Communicator& comm, int counters)
      : sync_(std::make_unique<CounterSync>(comm.handle(), counters)) {}
  ~Sync() {
    nb::gil_scoped_release released;
    sync_.reset();
  }
  Sync(const Sync&) = delete;
  Sync& operator=(const Sync&) = delete;

  CounterTicket post(int layer, const Integers& counts, int64_t expected_sum) {
    return sync_->post(layer, counts.values, expected_sum);
  }
  Counts wait(CounterTicket ticket) {
    nb::gil_scoped_release released;
    return sync_->wait(ticket);
  }
  std::vector<int64_t> accumulated(int layer) const {
    const auto sums = sync_->accumulated(layer);
    return std::vector<int64_t>(sums.begin(), sums.end());
  }
  void end_step() { sync_->end_step(); }
  int64_t exchanges() const { return sync_->exchanges(); }

 private:
  std::unique_ptr<CounterSync> sync_;
};

void add_counters(nb::module_& module) {
  nb::class_<CounterTicket>(module, "CounterTicket", "A promise of CounterSync.post().");
  record<Counts>(module, "Counts", "The counters that all ranks posted for one layer.",
                 field("ranks", &Counts::ranks, "how many ranks there are"),
                 field("values", &Counts::values, "of all ranks in rank order"),
                 field("sums", &Counts::sums, "of each counter over the ranks"));
  nb::class_<Sync>(module, "CounterSync", R"doc(Counts of all ranks, exchanged once.

One small exchange behind what is computed serves all that need it.

Give it a communicator of its own. Every rank posts the same layers in the same order.

>>> def main(comm):
...     sync = tutti.CounterSync(comm, counters=2)
...     ticket = sync.post(0, [comm.rank, 1])
...     return sync.wait(ticket).sums
>>> tutti.run(main, ranks=3)[0]
[3, 3])doc")
      .def(nb::init<Communicator&, int>(), "comm"_a, "counters"_a, nb::keep_alive<1, 2>())
      .def("post", &Sync::post, "layer"_a, "counts"_a, "expected_sum"_a = -1, "Returns at once.")
      .def("wait", &Sync::wait, "ticket"_a, "The Counts of all ranks.")
      .def("accumulated", &Sync::accumulated, "layer"_a,
           "Sums of a layer over all waits of this step.")
      .def("end_step", &Sync::end_step, "The optimizer has stepped.")
      .def_prop_ro("exchanges", &Sync::exchanges, "How many there were.");
}

/// Rows of experts: the runtime's class, with buffers that are checked.
class Rows {
 public:
  Rows(nb::object communicator, int experts, int64_t capacity, const char* type, int64_t width)
      : owner_(communicator),
        comm_(nb::cast<Communicator&>(communicator)),
        type_(type_named(type)),
        width_(width) {
    const tuttiComm_t handle = comm_.handle();
    comm_.run([&] {
      rows_ =
          std::make_unique<RowDispatch>(handle, experts, capacity, Bytes(bytes_of(type_) * width));
    });
  }

  ~Rows() { end_part(comm_, rows_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void dispatch(const DispatchIndex& index, const Counts& counts, nb::handle x) {
    const Buffer from = readable(x, "RowDispatch", "x");
    expect_size("RowDispatch", "x", from, index.tokens * width_);
    comm_.handle();
    comm_.run([&] { rows_->dispatch(index, counts, from.data); });
  }

  void prepare(const DispatchIndex& index, const Counts& counts) {
    comm_.handle();
    comm_.run([&] { rows_->prepare(index, counts); });
  }
  void release() { rows_->release(); }

  void combine(const DispatchIndex& index, nb::handle results) {
    const Buffer to = writable(results, "RowDispatch", "results");
    expect_size("RowDispatch", "results", to, index.rows() * width_);
    comm_.handle();
    comm_.run([&] { rows_->combine(index, to.data); });
  }

  /// The rows in the window, as an array that keeps it alive.
  static nb::object rows(nb::object self) {
    Rows& inner = nb::cast<Rows&>(self);
    const auto count = static_cast<size_t>(inner.rows_->offsets().back());
    const size_t shape[2] = {count, static_cast<size_t>(inner.width_)};
    if (inner.type_ == tuttiFloat32) {
      return nb::cast(nb::ndarray<nb::numpy, float>(inner.rows_->rows(), 2, shape, self));
    }
    if (inner.type_ == tuttiFloat64) {
      return nb::cast(nb::ndarray<nb::numpy, double>(inner.rows_->rows(), 2, shape, self));
    }
    const size_t bytes[2] = {count, static_cast<size_t>(bytes_of(inner.type_) * inner.width_)};
    return nb::cast(nb::ndarray<nb::numpy, uint8_t>(inner.rows_->rows(), 2, bytes, self));
  }

  const std::vector<int64_t>& offsets() const { return rows_->offsets(); }

 private:
  nb::object owner_;
  Communicator& comm_;
  tuttiDataType_t type_;
  int64_t width_;
  std::unique_ptr<RowDispatch> rows_;
};

void add_rows(nb::module_& module) {
  nb::class_<Rows>(module, "RowDispatch", R"doc(Rows of tokens go to their experts and back.

They go straight to the experts' ranks, without a buffer in expert order.

Expert e lives on rank e / (experts / ranks); a rank has room for `capacity` rows of `width`
elements. Making it is collective.

>>> import numpy
>>> def main(comm):
...     index = tutti.build_index([1, 0], k=1, experts=2)      # two tokens on each rank
...     sync = tutti.CounterSync(comm.split(0), counters=2)
...     counts = sync.wait(sync.post(0, [index.count_of(e) for e in range(2)]))
...     rows = tutti.RowDispatch(comm, experts=2, capacity=8, width=1)
...     rows.dispatch(index, counts, numpy.array([[1.0], [2.0]], "float32") + 10 * comm.rank)
...     got = rows.rows.ravel().tolist()
...     results = numpy.zeros((index.rows, 1), "float32")
...     rows.combine(index, results)
...     return got, results.ravel().tolist()
>>> tutti.run(main, ranks=2)
[([2.0, 12.0], [2.0, 1.0]), ([1.0, 11.0], [12.0, 11.0])])doc")
      .def(nb::init<nb::object, int, int64_t, const char*, int64_t>(), "comm"_a, "experts"_a,
           "capacity"_a, "dtype"_a = "float32", nb::kw_only(), "width"_a)
      .def("dispatch", &Rows::dispatch, "index"_a, "counts"_a, "x"_a,
           "`x` has index.tokens rows; `counts` are count_of() of all ranks, from a CounterSync.")
      .def_prop_ro("rows", &Rows::rows,
                   "This rank's rows, by expert, in place: results are written over them. Bytes, "
                   "where the type is none of numpy's.")
      .def_prop_ro("offsets", &Rows::offsets, "Where each of this rank's experts begins.")
      .def("prepare", &Rows::prepare, "index"_a, "counts"_a,
           "Opens the window for results without rows having been sent, as gradients need it; "
           "`rows` is then written, and combine() follows.")
      .def("release", &Rows::release,
           "The rows have been copied out of the window: another dispatch() may follow.")
      .def("combine", &Rows::combine, "index"_a, "results"_a,
           "`results` gets index.rows rows, in the order of the index.");
}

/// A bucket in registered memory, as arrays.
class Bucket {
 public:
  Bucket(nb::object communicator, const BucketPlan& plan, const char* type)
      : owner_(communicator),
        comm_(nb::cast<Communicator&>(communicator)),
        type_(type_named(type)) {
    const tuttiComm_t handle = comm_.handle();
    comm_.run([&] { buffer_ = std::make_unique<BucketBuffer>(handle, plan, type_); });
  }

  ~Bucket() { end_part(comm_, buffer_); }
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  static nb::object tensor(nb::object self, int index) {
    Bucket& inner = nb::cast<Bucket&>(self);
    const auto& tensors = inner.buffer_->plan().tensors;
    if (index < 0 || static_cast<size_t>(index) >= tensors.size()) {
      refuse("BucketBuffer: there is no tensor " + std::to_string(index));
    }
    return inner.array(self, inner.buffer_->tensor(index),
                       tensors[static_cast<size_t>(index)].elements);
  }

  static nb::object share(nb::object self) {
    Bucket& inner = nb::cast<Bucket&>(self);
    return inner.array(self, inner.buffer_->share(), inner.buffer_->plan().share);
  }

  void all_gather() {
    comm_.handle();
    comm_.run([this] { buffer_->all_gather(); });
  }
  void reduce_scatter(bool deterministic) {
    comm_.handle();
    comm_.run([this, deterministic] { buffer_->reduce_scatter(deterministic); });
  }

 private:
  nb::object array(nb::object self, void* data, int64_t elements) const {
    const size_t shape[1] = {static_cast<size_t>(elements)};
    if (type_ == tuttiFloat64) {
      return nb::cast(nb::ndarray<nb::numpy, double>(data, 1, shape, self));
    }
    return nb::cast(nb::ndarray<nb::numpy, float>(data, 1, shape, self));
  }

  nb::object owner_;
  Communicator& comm_;
  tuttiDataType_t type_;
  std::unique_ptr<BucketBuffer> buffer_;
};

void add_bucket(nb::module_& module) {
  nb::class_<Bucket>(module, "BucketBuffer", R"doc(A bucket of tensors in one allocation.

The memory is registered: collectives run in place, and nothing is copied.

`dtype` is float32 or float64. Making it is collective over `comm`, which must outlive it.

>>> plan = tutti.plan_bucket([tutti.BucketTensor(elements=4)], ranks=2)
>>> def main(comm):
...     bucket = tutti.BucketBuffer(comm, plan)
...     bucket.share[:] = comm.rank + 1
...     bucket.all_gather()
...     return bucket.tensor(0).tolist()
>>> tutti.run(main, ranks=2)[1]
[1.0, 1.0, 2.0, 2.0])doc")
      .def(nb::init<nb::object, const BucketPlan&, const char*>(), "comm"_a, "plan"_a,
           "dtype"_a = "float32")
      .def("tensor", &Bucket::tensor, "index"_a,
           "A tensor in the whole buffer, flat: valid on every rank after a gather.")
      .def_prop_ro("share", &Bucket::share, "This rank's share, flat.")
      .def("all_gather", &Bucket::all_gather, "Every rank's share to all ranks.")
      .def("reduce_scatter", &Bucket::reduce_scatter, "deterministic"_a = false,
           "Each share becomes the sum over all ranks, on its rank; the rest is undefined then.");
}

/// Runs a sum of the arrays, in place.
void sum_arrays(Communicator& comm, const nb::list& arrays, const char* call, Where where,
                const std::function<void(tuttiComm_t, std::span<const SumPart>)>& sum) {
  std::vector<Buffer> buffers;
  std::vector<SumPart> parts;
  for (nb::handle array : arrays) {
    buffers.push_back(writable(array, call, "an array", where));
    const Buffer& buffer = buffers.back();
    parts.push_back({buffer.data, static_cast<size_t>(buffer.count), buffer.type});
  }
  const tuttiComm_t handle = comm.handle();
  comm.run([&] { sum(handle, parts); });
}

void sum_together(Communicator& comm, const nb::list& arrays, bool deterministic) {
  const tuttiStream_t stream = current_stream();
  sum_arrays(comm, arrays, "all_reduce_together", Where::kStream,
             [&](tuttiComm_t handle, const auto& parts) {
               all_reduce_together(handle, parts, deterministic, stream);
             });
}

void sum_fused(Communicator& comm, const nb::list& arrays, const char* wire, bool deterministic) {
  const tuttiDataType_t type = type_named(wire);
  sum_arrays(comm, arrays, "all_reduce_fused", Where::kHost,
             [&](tuttiComm_t handle, const auto& parts) {
               FusedSum(handle, type).run(parts, deterministic);
             });
}

}  // namespace

void add_movers(nb::module_& module) {
  add_exchange(module);
  add_counters(module);
  add_rows(module);
  add_bucket(module);
  module.def("all_reduce_together", &sum_together, "comm"_a, "arrays"_a, "deterministic"_a = false,
             "Sums arrays of any types and sizes over all ranks, in place, as one group.\n\n"
             ">>> import numpy\n"
             ">>> def main(comm):\n"
             "...     x, n = numpy.ones(3), numpy.array([comm.rank])\n"
             "...     tutti.all_reduce_together(comm, [x, n])\n"
             "...     return x.tolist(), n.tolist()\n"
             ">>> tutti.run(main, ranks=2)[0]\n"
             "([2.0, 2.0, 2.0], [1])");
  module.def("all_reduce_fused", &sum_fused, "comm"_a, "arrays"_a, "wire"_a = "float32",
             "deterministic"_a = false,
             "Sums arrays over all ranks, in place, as one collective: they are cast to `wire`, "
             "added and rounded once (BOOST). Each is of that type, or of 16 bits.\n\n"
             ">>> import numpy\n"
             ">>> def main(comm):\n"
             "...     z, s = numpy.ones(3, numpy.float16), numpy.array([0.5], numpy.float32)\n"
             "...     tutti.all_reduce_fused(comm, [z, s])\n"
             "...     return z.tolist(), s.tolist()\n"
             ">>> tutti.run(main, ranks=2)[0]\n"
             "([2.0, 2.0, 2.0], [1.0])");
}

}  // namespace tutti::python
