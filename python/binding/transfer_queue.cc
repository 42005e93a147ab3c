// The transfer queue: controllers, storage units, and the client that tutti.transfer_queue makes
// arrays for.
#include <nanobind/stl/string_view.h>

#include <memory>

#include "buffer.h"
#include "failure.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/transfer_queue.h"
#include "waiting.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds <= kLongest)) refuse("a time must be 0 to 10^9 seconds");
  return std::chrono::milliseconds(int64_t(seconds * 1000));
}
std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

/// A client whose waits let other threads run and end with Ctrl-C.
class Client {
 public:
  Client(const std::string& address, const nb::bytes& key, double timeout) {
    const std::string_view secret = view(key);
    const auto wait = milliseconds(timeout);
    const nb::gil_scoped_release go_on;
    client_ = std::make_unique<QueueClient>(address, secret, wait);
  }

  bool put(const QueueClient::Put& put, nb::handle array) {
    const Buffer buffer = readable(array, "put", "array");
    const auto size = size_t(buffer.count * bytes_of(buffer.type));
    bool is_new = false;
    wait([&] {
      is_new = client_->put_if_absent(put, {static_cast<const std::byte*>(buffer.data), size});
    });
    return is_new;
  }
  QueueBatch claim(const std::string& task, const ClaimSpec& spec) {
    QueueBatch batch;
    wait([&] { batch = client_->claim(task, spec); });
    return batch;
  }
  nb::list fetch(const QueueBatch& batch) {
    QueueSamples samples;
    wait([&] { samples = client_->fetch(batch); });
    nb::list cells;
    for (const std::string& cell : samples.bytes) cells.append(nb::bytes(cell.data(), cell.size()));
    return cells;
  }
  template <class Call>
  void wait(const Call& call) {
    run_waiting(call, [this] { client_->interrupt(); });
  }
  QueueClient& client() { return *client_; }

 private:
  std::unique_ptr<QueueClient> client_;
};

QueueClient::Put put_of(int64_t step, int64_t row, const std::string& field,
                        const std::string& form, double timeout) {
  QueueClient::Put put;
  put.row = {step, row};
  put.field = field;
  put.form = form;
  put.timeout = milliseconds(timeout);
  return put;
}

void add_servers(nb::module_& module) {
  nb::class_<StorageUnit>(module, "StorageUnit", R"doc(Serves samples of a transfer queue.

It holds at most `budget` bytes and serves in a thread of its own until it is deleted. An address
is "unix:/path" or "tcp:host:port", where port 0 takes a free one; over tcp all processes of the
queue hold one `key` of at least 16 bytes.

>>> unit = tutti.StorageUnit("tcp:127.0.0.1:0", budget=1000, key=b"sixteen bytes...")
>>> unit.address.startswith("tcp:127.0.0.1:"), unit.held
(True, 0))doc")
      .def(
          "__init__",
          [](StorageUnit* self, const std::string& address, Bytes budget, const nb::bytes& key) {
            new (self) StorageUnit(address, budget, view(key));
          },
          "address"_a, "budget"_a, "key"_a = nb::bytes("", 0))
      .def_prop_ro("address", &StorageUnit::address, "As clients reach it.")
      .def_prop_ro("held", &StorageUnit::held, "Bytes of samples.");
  nb::class_<QueueController>(module, "QueueController", R"doc(Knows what is in a transfer queue.

A table of `ring_steps` steps of `rows` rows with these `fields`; row r lies on unit r modulo their
number. Rows are claimed, and cells put, for `lease` seconds.)doc")
      .def(
          "__init__",
          [](QueueController* self, const std::string& address, int64_t rows,
             const std::vector<std::string>& fields, const std::vector<std::string>& units,
             int ring_steps, double lease, const nb::bytes& key) {
            QueueSpec spec{ring_steps, rows, fields, units, milliseconds(lease)};
            new (self) QueueController(address, spec, view(key));
          },
          "address"_a, "rows"_a, "fields"_a, "units"_a, "ring_steps"_a = 2, "lease"_a = 60.0,
          "key"_a = nb::bytes("", 0))
      .def_prop_ro("address", &QueueController::address, "As clients reach it.");
}

void add_values(nb::module_& module) {
  record<QueueRow>(module, "QueueRow", "A row of a step.",
                   field("step", &QueueRow::step, "its number"),
                   field("row", &QueueRow::row, "of the step"));
  nb::class_<QueueBatch>(module, "QueueBatch", "Rows that are lent to one client.")
      .def_ro("rows", &QueueBatch::rows, "QueueRow objects")
      .def_ro("weights", &QueueBatch::weights, "of the rows")
      .def_prop_ro(
          "versions",
          [](const QueueBatch& self) {
            nb::list versions;
            for (const int64_t version : self.versions) {
              if (version == kAnyVersion) {
                versions.append(nb::none());
              } else {
                versions.append(version);
              }
            }
            return versions;
          },
          "of the weights that made the rows; None: of no weights")
      .def_ro("fields", &QueueBatch::fields, "names");
  record<QueueTaskCounts>(module, "QueueTaskCounts", "What became of a task's rows.",
                          field("consumed", &QueueTaskCounts::consumed, "acknowledged so far"),
                          field("lent", &QueueTaskCounts::lent, "now"),
                          field("free", &QueueTaskCounts::free, "now"),
                          field("lapsed", &QueueTaskCounts::lapsed, "loans that ended unread"),
                          field("expired", &QueueTaskCounts::expired, "too stale"));
}

void add_client(nb::module_& module) {
  nb::class_<Client>(module, "_QueueClient")
      .def(nb::init<const std::string&, const nb::bytes&, double>(), "address"_a, "key"_a,
           "timeout"_a)
      .def("add_task",
           [](Client& self, const std::string& name, const std::vector<std::string>& fields,
              int64_t staleness) {
             self.wait([&] { self.client().add_task({name, fields, staleness}); });
           })
      .def("put",
           [](Client& self, int64_t step, int64_t row, const std::string& field,
              const std::string& form, nb::handle array, int64_t version, int64_t weight,
              double timeout) {
             QueueClient::Put put = put_of(step, row, field, form, timeout);
             put.version = version;
             put.weight = weight;
             return self.put(put, array);
           })
      .def("claim",
           [](Client& self, const std::string& task, int64_t rows, int64_t least, int64_t step,
              int64_t group, int64_t window, double timeout) {
             return self.claim(task, {rows, least, step, group, window, milliseconds(timeout)});
           })
      .def("fetch", &Client::fetch)
      .def("ack",
           [](Client& self, const QueueBatch& b) { self.wait([&] { self.client().ack(b); }); })
      .def("renew",
           [](Client& self, const QueueBatch& b) { self.wait([&] { self.client().renew(b); }); })
      .def("release",
           [](Client& self, const QueueBatch& b) { self.wait([&] { self.client().release(b); }); })
      .def("drain",
           [](Client& self, int64_t step, double timeout) {
             self.wait([&] { self.client().drain(step, milliseconds(timeout)); });
           })
      .def("clear",
           [](Client& self, int64_t step) {
             int64_t left = 0;
             self.wait([&] { left = self.client().clear(step); });
             return left;
           })
      .def("publish", [](Client& self,
                         int64_t version) { self.wait([&] { self.client().publish(version); }); })
      .def("version",
           [](Client& self, int64_t least, double timeout) {
             int64_t version = 0;
             self.wait([&] { version = self.client().version(least, milliseconds(timeout)); });
             return version;
           })
      .def("counts",
           [](Client& self, const std::string& task) { return self.client().counts(task); })
      .def("expired", [](Client& self, const std::string& task,
                         int64_t step) { return self.client().expired(task, step); })
      .def("form", [](Client& self, int64_t step, const std::string& field) {
        return self.client().form(step, field);
      });
}

}  // namespace

void add_transfer_queue(nb::module_& module) {
  add_servers(module);
  add_values(module);
  add_client(module);
}

}  // namespace tutti::python
