// The Python module: the only file that knows pybind11.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <string>
#include <utility>

#include "backend.h"
#include "errors.h"
#include "interpreter.h"

namespace {

using tutti_torch::ProcessGroupTutti;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

struct Settings {
  std::string group_name;
  std::vector<uint64_t> global_ranks;
  bool enable_reconfigure = false;
};

BackendPtr make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                std::chrono::milliseconds timeout, const Settings& settings) {
  auto options = c10::make_intrusive<c10d::Backend::Options>("tutti", timeout);
  options->group_name = settings.group_name;
  options->global_ranks_in_group = settings.global_ranks;
  return c10::make_intrusive<ProcessGroupTutti>(store, rank, size, std::move(options),
                                                settings.enable_reconfigure);
}

ProcessGroupTutti& own(const BackendPtr& backend) {
  auto* tutti = dynamic_cast<ProcessGroupTutti*>(backend.get());
  TORCH_CHECK_TYPE(tutti != nullptr, "this backend is not tutti's");
  return *tutti;
}

std::string explain(const BackendPtr& backend, const std::string& collective, size_t count,
                    const py::object& type) {
  ProcessGroupTutti& tutti = own(backend);
  const at::ScalarType scalar = type.cast<at::ScalarType>();
  const py::gil_scoped_release no_gil;
  return tutti.explain(collective, count, scalar);
}

py::dict last_edit(const BackendPtr& backend) {
  const tuttiEditReport_t report = own(backend).last_edit();
  py::dict fields;
  fields["epoch"] = report.epoch;
  fields["removed"] = report.removed;
  fields["joined"] = report.joined;
  fields["links_kept"] = report.links_kept;
  fields["links_made"] =
      report.links_made_for_newcomers + report.links_made_at_first_use + report.links_made_again;
  fields["links_closed"] = report.links_closed;
  return fields;
}

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  tutti_torch::set_end_of_interpreter(&interpreter_ends);
  // A process of PyTorch has more threads than its rank, and they need the cores on which Tutti
  // would poll: offer them soon. Refused where the process has used Tutti before; then its settings
  // stand.
  tuttiSetDefault("TUTTI_SPIN", "20", "tutti_torch");
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout, std::string group_name,
         std::vector<uint64_t> global_ranks, bool enable_reconfigure) {
        return make(store, rank, size, timeout,
                    {std::move(group_name), std::move(global_ranks), enable_reconfigure});
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("group_name"),
      py::arg("global_ranks"), py::arg("enable_reconfigure"),
      py::call_guard<py::gil_scoped_release>());
  module.def("explain", &explain, py::arg("backend"), py::arg("collective"), py::arg("count"),
             py::arg("dtype"));
  module.def("last_edit", &last_edit, py::arg("backend"));
  module.def(
      "trace_dump",
      [](const std::string& path) {
        const auto result = tuttiTraceDump(path.empty() ? nullptr : path.c_str());
        tutti_torch::check(result, "trace_dump", nullptr, {});
      },
      py::arg("path"), py::call_guard<py::gil_scoped_release>());
  module.attr("built_for") = TUTTI_TORCH_BUILT_FOR;
}
