// Groups: the calls of a `with tutti.group():` block progress together.
#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "communicator.h"
#include "failure.h"
#include "on_stream.h"
#include "part.h"
#include "waiting.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void enter() {
    if (current_group() != nullptr) refuse("group: this thread is in a group; groups do not nest");
    current_group() = this;
  }

  void leave(nb::handle failure) {
    current_group() = nullptr;
    std::vector<Entry> entries = std::move(entries_);
    entries_.clear();
    if (!failure.is_none() || entries.empty()) return;
    const tuttiStream_t stream = current_stream();
    run_waiting([&entries, stream] { run(entries, stream); },
                [&entries] {
                  for (Entry& entry : entries) entry.communicator->abort();
                });
  }

  void add(nb::object communicator, std::unique_ptr<Call> call) {
    Communicator* inner = nb::cast<Communicator*>(communicator);
    entries_.push_back(Entry{std::move(communicator), inner, inner->handle(), std::move(call)});
  }

 private:
  struct Entry {
    nb::object owner;
    Communicator* communicator;
    tuttiComm_t comm;
    std::unique_ptr<Call> call;
  };

  static void run(std::vector<Entry>& entries, tuttiStream_t stream) {
    expect_success(tuttiGroupStart(), nullptr);
    tuttiResult_t refused = tuttiSuccess;
    for (Entry& entry : entries) {
      refused = tuttiSubmit(&entry.call->call, entry.comm, stream, entry.call->options_or_null(),
                            nullptr);
      if (refused != tuttiSuccess) break;
    }
    const std::string why = refused == tuttiSuccess ? "" : tuttiGetLastError(nullptr);
    const tuttiResult_t result = tuttiGroupEnd();
    if (!why.empty()) refuse(why);
    expect_success(result, entries.front().comm);
  }

  std::vector<Entry> entries_;
};

Group*& current_group() {
  thread_local Group* group = nullptr;  // tidy: allow mutable (a group belongs to its thread)
  return group;
}

void collect(Group& group, nb::object communicator, std::unique_ptr<Call> call) {
  group.add(std::move(communicator), std::move(call));
}

void add_group(nb::module_& module) {
  nb::class_<Group>(module, "Group", "The calls of one `with` block; made by tutti.group().")
      .def(nb::init<>())
      .def("__enter__",
           [](nb::object self) {
             nb::cast<Group&>(self).enter();
             return self;
           })
      .def(
          "__exit__",
          [](Group& self, nb::object kind, nb::object, nb::object) { self.leave(kind); },
          "kind"_a.none(), "failure"_a.none(), "traceback"_a.none());
}

}  // namespace tutti::python
