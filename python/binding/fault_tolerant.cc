// The all_reduce that survives.
//
// Owns: keeps the communicator's Python object alive, and arrays until the commit of their step.
#include "tutti/runtime/fault_tolerant.h"

#include <memory>
#include <string>
#include <vector>

#include "communicator.h"
#include "failure.h"
#include "on_stream.h"
#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

/// The spec, from the keywords of Python.
FaultTolerantSpec spec_of(int shards, int64_t replica, int shard, bool joins, bool deterministic) {
  FaultTolerantSpec spec;
  spec.group.shards = shards;
  spec.group.replica = replica;
  spec.group.shard = shard;
  spec.group.joins = joins;
  spec.deterministic = deterministic;
  spec.stream = current_stream();
  return spec;
}

class Survivor {
 public:
  Survivor(nb::object communicator, const FaultTolerantSpec& spec)
      : owner_(communicator), comm_(nb::cast<Communicator&>(communicator)), stream_(spec.stream) {
    const tuttiComm_t handle = comm_.handle();
    comm_.run([&] { reduce_ = std::make_unique<FaultTolerantAllReduce>(handle, spec); });
    comm_.read_place();
  }
  // One that outlives its communicator is left to the end of the process.
  ~Survivor() {
    nb::gil_scoped_release released;
    if (!comm_.open()) static_cast<void>(reduce_.release());
    reduce_.reset();
  }
  Survivor(const Survivor&) = delete;
  Survivor& operator=(const Survivor&) = delete;

  void all_reduce(nb::handle send, nb::handle recv, const std::string& op) {
    if (op != "sum" && op != "avg") {
      refuse(std::string(kName) + ": '" + op + "' is not sum or avg");
    }
    comm_.handle();
    expect_own_stream();
    const OnStreamScope scope(stream_);
    const bool in_place = recv.is_none();
    Buffer to = writable(in_place ? send : recv, kName, "recv", Where::kStream);
    Buffer from = in_place ? to : readable(send, kName, "send", Where::kStream);
    if (from.type != to.type || from.count != to.count) {
      refuse(std::string(kName) + ": send is " + from.text() + " and recv " + to.text() +
             "; they need one type and size");
    }
    const tuttiRedOp_t reduction = op == "sum" ? tuttiSum : tuttiAvg;
    // It waits where zeros of a newcomer are put into a device's memory.
    comm_.run([&] { reduce_->all_reduce(from.data, to.data, to.count, to.type, reduction); });
    in_flight_.push_back(std::move(from));
    in_flight_.push_back(std::move(to));
  }

  nb::dict step_commit() {
    comm_.handle();
    StepReport report;
    try {
      comm_.run([&] { report = reduce_->step_commit(); });
    } catch (...) {
      comm_.read_place();
      throw;
    }
    in_flight_.clear();
    comm_.read_place();
    nb::list members;
    for (const StepMember& member : report.members) {
      members.append(nb::make_tuple(member.replica, member.shard, member.counted));
    }
    nb::dict said;
    said["step"] = report.step;
    said["epoch"] = report.epoch;
    said["rank"] = report.rank;
    said["divisor"] = report.divisor;
    said["runs"] = report.runs;
    said["members"] = members;
    return said;
  }

  void caught_up() { reduce_->group().caught_up(); }
  void expect_newcomers(int newcomers) { reduce_->group().expect_newcomers(newcomers); }
  int64_t step() const { return reduce_->step(); }
  bool counted() const { return reduce_->group().counted(); }
  Bytes kept() const { return reduce_->kept(); }

 private:
  static constexpr const char* kName = "FaultTolerantAllReduce";

  /// Calls would not come behind the work of a block's own stream.
  void expect_own_stream() const {
    const tuttiStream_t here = current_stream();
    const bool is_own = here.kind == stream_.kind && here.handle == stream_.handle;
    if (is_own || here.kind == tuttiStreamBlocking) return;
    refuse(std::string(kName) +
           ": this thread is in tutti.on_stream() of another stream than the "
           "one that the object was made in; make it within a block of this stream");
  }

  nb::object owner_;
  Communicator& comm_;
  const tuttiStream_t stream_;
  std::unique_ptr<FaultTolerantAllReduce> reduce_;
  std::vector<Buffer> in_flight_;
};

constexpr const char* kDoc = R"doc(Sums and averages over replicas that live and die.

A step reduces arrays by all_reduce(), which returns at once, and ends with step_commit(). Results
count, and parameters may change, when that has returned; if a rank has died, the calls have run
again among those that live. Arrays must not be touched before. `comm` is this object's alone.
Made within tutti.on_stream(), it has its calls go on that stream, and takes arrays of its device;
calls in place keep a copy there.

`shards` ranks hold one copy of the model, live and leave together; `replica` and `shard` say which
one this is (by default rank // shards and rank % shards). A rank from tutti.join() passes
`joins`: it takes part with zeros and gets all results until it has said caught_up().

>>> import numpy
>>> def main(comm):
...     survivors = tutti.FaultTolerantAllReduce(comm)
...     x = numpy.full(2, comm.rank + 1.0)
...     survivors.all_reduce(x)
...     report = survivors.step_commit()
...     return x.tolist(), report["divisor"]
>>> tutti.run(main, ranks=2)
[([1.5, 1.5], 2), ([1.5, 1.5], 2)])doc";

}  // namespace

void add_fault_tolerant(nb::module_& module) {
  nb::class_<Survivor>(module, "FaultTolerantAllReduce", kDoc)
      .def(
          "__init__",
          [](Survivor* self, nb::object comm, int shards, int64_t replica, int shard, bool joins,
             bool deterministic) {
            new (self)
                Survivor(std::move(comm), spec_of(shards, replica, shard, joins, deterministic));
          },
          "comm"_a, nb::kw_only(), "shards"_a = 1, "replica"_a = -1, "shard"_a = -1,
          "joins"_a = false, "deterministic"_a = false)
      .def("all_reduce", &Survivor::all_reduce, "send"_a, "recv"_a = nb::none(), nb::kw_only(),
           "op"_a = "avg",
           "Begins to reduce an array, in place without `recv`; then the library keeps a copy.")
      .def("step_commit", &Survivor::step_commit,
           "Waits until the step counts on all members that live. A dict of step, epoch, rank, "
           "divisor (replicas that are counted), runs, and members by rank as (replica, shard, "
           "counted).")
      .def("caught_up", &Survivor::caught_up,
           "This newcomer has the state of all steps so far: it is counted from the next one on.")
      .def("expect_newcomers", &Survivor::expect_newcomers, "newcomers"_a,
           "So many ranks are about to tutti.join() behind the next commit.")
      .def_prop_ro("step", &Survivor::step, "The step that runs now.")
      .def_prop_ro("counted", &Survivor::counted, "Whether this rank contributes.")
      .def_prop_ro("kept", &Survivor::kept, "Bytes of copies of inputs.");
}

}  // namespace tutti::python
