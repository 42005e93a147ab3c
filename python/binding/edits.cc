// Edits in place: the members of a communicator change, its object stays.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "communicator.h"
#include "failure.h"
#include "part.h"
#include "waiting.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::dict as_dict(const tuttiEditReport_t& report) {
  nb::dict fields;
  fields["epoch"] = report.epoch;
  fields["removed"] = report.removed;
  fields["joined"] = report.joined;
  fields["links_kept"] = report.links_kept;
  fields["links_made"] =
      report.links_made_for_newcomers + report.links_made_at_first_use + report.links_made_again;
  fields["links_closed"] = report.links_closed;
  fields["windows_kept"] = report.windows_kept;
  fields["registrations_kept"] = report.registrations_kept;
  constexpr double kNanoseconds = 1e-9;
  fields["seconds"] = kNanoseconds * static_cast<double>(report.drain_ns + report.agree_ns +
                                                         report.build_ns + report.move_ns);
  return fields;
}

/// The wish as Python passes it; lists outlive the call.
struct EditArguments {
  bool remove_dead = false;
  std::vector<int> removed;
  int newcomers = 0;
  std::vector<int> order;
  int at_least = 0;
  bool abort = false;
  bool kill_removed = false;
  double timeout = 0;

  tuttiEdit_t edit() const {
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.remove_dead = remove_dead ? 1 : 0;
    edit.removed = removed.empty() ? nullptr : removed.data();
    edit.removed_count = static_cast<int>(removed.size());
    edit.newcomers = newcomers;
    edit.order = order.empty() ? nullptr : order.data();
    edit.order_count = static_cast<int>(order.size());
    edit.at_least = at_least;
    edit.abort = abort ? 1 : 0;
    edit.kill_removed = kill_removed ? 1 : 0;
    if (timeout > 0) edit.timeout_ns = static_cast<uint64_t>(timeout * 1e9);
    return edit;
  }
};

EditArguments read_arguments(const nb::dict& wish) {
  EditArguments read;
  read.remove_dead = nb::cast<bool>(wish["remove_dead"]);
  read.removed = nb::cast<std::vector<int>>(wish["removed"]);
  read.newcomers = nb::cast<int>(wish["newcomers"]);
  read.order = nb::cast<std::vector<int>>(wish["order"]);
  read.at_least = nb::cast<int>(wish["at_least"]);
  read.abort = nb::cast<bool>(wish["abort"]);
  read.kill_removed = nb::cast<bool>(wish["kill_removed"]);
  read.timeout = nb::cast<double>(wish["timeout"]);
  return read;
}

nb::dict edit_in_place(Communicator& self, const nb::dict& wish) {
  const EditArguments arguments = read_arguments(wish);
  const tuttiComm_t comm = self.handle();
  const tuttiEdit_t edit = arguments.edit();
  tuttiEditReport_t report = {};
  report.size = sizeof report;
  // After an error, too: an epoch may have been decided whose links could not be made.
  try {
    self.run([&] { expect_success(tuttiCommEdit(comm, &edit, &report), comm); });
  } catch (...) {
    self.read_place();
    throw;
  }
  self.read_place();
  return as_dict(report);
}

nb::bytes id_for_newcomers(Communicator& self) {
  const tuttiComm_t comm = self.handle();
  tuttiUniqueId id;
  self.run([&] { expect_success(tuttiCommGetUniqueId(comm, &id), comm); });
  return nb::bytes(id.internal, sizeof(id.internal));
}

uint32_t epoch_of(const Communicator& self) {
  uint32_t epoch = 0;
  expect_success(tuttiCommGetEpoch(self.handle(), &epoch), self.handle());
  return epoch;
}

nb::bytes member_id(const Communicator& self, int rank) {
  tuttiMemberId id;
  expect_success(tuttiCommGetMemberId(self.handle(), rank, &id), self.handle());
  return nb::bytes(reinterpret_cast<const char*>(id.bytes), sizeof(id.bytes));
}

}  // namespace

void add_edits(nb::module_& module, nb::class_<Communicator>& communicator) {
  communicator.def("_edit", &edit_in_place)
      .def("_id_for_newcomers", &id_for_newcomers)
      .def_prop_ro("epoch", &epoch_of, "How many edits in place the group has had.")
      .def("member_id", &member_id, "rank"_a,
           "The id of the member that has this rank: bytes that stay the same whatever its rank "
           "becomes, equal on all ranks.");
  module.def("_join", [](nb::bytes id, const std::string& name, double timeout) {
    const tuttiUniqueId key = id_of(id);
    const tuttiConfig_t config = config_of(name, timeout);
    return make([&](tuttiComm_t* made) { return tuttiCommJoin(made, &key, &config); });
  });
}

}  // namespace tutti::python
