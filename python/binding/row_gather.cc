// Rows of a table in host memory, gathered into an array.
//
// Owns: a gather keeps its table's memory alive, and the targets that are being filled.
#include "tutti/runtime/row_gather.h"

#include <nanobind/stl/optional.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "buffer.h"
#include "failure.h"
#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

class Gather {
 public:
  Gather(nb::handle table, int threads) : table_(readable(table, "RowGather", "table")) {
    if (table_.array.ndim() < 1 || table_.array.shape(0) == 0) {
      refuse("RowGather: table is " + table_.text() + "; its first dimension counts the rows");
    }
    const auto rows = static_cast<int64_t>(table_.array.shape(0));
    const int64_t element = bytes_of(table_.type);
    row_ = table_.count / rows;
    gather_ = std::make_unique<RowGather>(
        RowTable{table_.data, rows, Bytes(row_ * element), Bytes(0), Bytes(element)}, threads);
  }
  ~Gather() {
    const nb::gil_scoped_release go_on;
    gather_.reset();
  }
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  void gather(const Integers& ids, nb::handle out) {
    const Buffer target = target_of(out);
    const nb::gil_scoped_release go_on;
    gather_->gather(ids.values, target.data, room_of(target));
  }
  int64_t begin(const Integers& ids, nb::handle out) {
    Buffer target = target_of(out);
    const int64_t ticket = gather_->begin(ids.values, target.data, room_of(target));
    under_way_.emplace(ticket, std::move(target));
    return ticket;
  }
  bool done(int64_t ticket) const { return gather_->done(ticket); }
  void wait(int64_t ticket) {
    {
      const nb::gil_scoped_release go_on;
      gather_->wait(ticket);
    }
    under_way_.erase(ticket);
  }
  RowGatherCounters counters() const { return gather_->counters(); }

 private:
  Buffer target_of(nb::handle out) const {
    Buffer target = writable(out, "RowGather", "out");
    if (target.type == table_.type) return target;
    refuse("RowGather: out is " + target.text() + ", and the table " + table_.text());
  }
  static Bytes room_of(const Buffer& target) { return Bytes(target.count * bytes_of(target.type)); }

  Buffer table_;
  int64_t row_ = 0;
  std::map<int64_t, Buffer> under_way_;
  std::unique_ptr<RowGather> gather_;
};

}  // namespace

void add_row_gather(nb::module_& module) {
  record<RowGatherCounters>(module, "RowGatherCounters", "Of a RowGather.",
                            field("gathers", &RowGatherCounters::gathers, "calls"),
                            field("rows", &RowGatherCounters::rows, "gathered"),
                            field("wanted", &RowGatherCounters::wanted, "bytes of these rows"),
                            field("line", &RowGatherCounters::line, "bytes of a line of memory"),
                            field("lines", &RowGatherCounters::lines, "in which the rows lie"));
  record<ReadLines>(module, "ReadLines", "128-byte lines that a device reads for each row.",
                    field("plain", &ReadLines::plain, "in the order of columns"),
                    field("rotated", &ReadLines::rotated, "each row from another column on"))
      .def_prop_ro("rotates", &ReadLines::rotates, "whether rotation needs fewer");
  nb::class_<Gather>(module, "RowGather",
                     R"doc(Rows of a table in memory of the host, gathered by threads.

`threads` beside the caller's; -1: by the number of cores. With begin() the gather goes on in the
background, and `out` is neither read nor written before wait().

>>> import numpy
>>> features = numpy.arange(12, dtype='float32').reshape(4, 3)
>>> gather = tutti.RowGather(features)
>>> out = numpy.zeros((2, 3), 'float32')
>>> ticket = gather.begin([3, 0], out)
>>> gather.wait(ticket)
>>> out.tolist()
[[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
>>> gather.counters.wanted
24)doc")
      .def(nb::init<nb::handle, int>(), "table"_a, "threads"_a = -1)
      .def("gather", &Gather::gather, "ids"_a, "out"_a,
           "Copies the rows of these ids one behind the other.")
      .def("begin", &Gather::begin, "ids"_a, "out"_a,
           "The same in the background; the ticket is good for one wait().")
      .def("done", &Gather::done, "ticket"_a, "Whether wait() would return at once.")
      .def("wait", &Gather::wait, "ticket"_a, "Returns when all rows of the ticket are copied.")
      .def_prop_ro("counters", &Gather::counters, "RowGatherCounters.");
  module.def(
      "lines_of_reads",
      [](Bytes row, const std::optional<Integers>& ids) {
        return ids ? lines_of_reads(row, ids->values) : lines_of_reads(row);
      },
      "row"_a, "ids"_a = nb::none(),
      "ReadLines of rows of so many bytes: on average, or counted for these ids (PyTorch-Direct, "
      "arXiv:2101.07956).\n\n"
      ">>> tutti.lines_of_reads(516).rotates, tutti.lines_of_reads(132).rotates\n"
      "(True, False)");
}

}  // namespace tutti::python
