// Settings, versions, ids of communicators: what needs no communicator.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "failure.h"
#include "part.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

int library_version() {
  int version = 0;
  expect_success(tuttiGetVersion(&version), nullptr);
  return version;
}

nb::bytes unique_id() {
  tuttiUniqueId id;
  tuttiResult_t result = tuttiSuccess;
  {
    nb::gil_scoped_release released;
    result = tuttiGetUniqueId(&id);
  }
  expect_success(result, nullptr);
  return nb::bytes(id.internal, sizeof(id.internal));
}

nb::bytes public_id() {
  tuttiUniqueId id;
  expect_success(tuttiGetPublicId(&id), nullptr);
  return nb::bytes(id.internal, sizeof(id.internal));
}

nb::list settings() {
  nb::list all;
  tuttiSetting_t setting;
  for (int index = 0; tuttiGetSetting(index, &setting) == tuttiSuccess; ++index) {
    nb::dict entry;
    entry["name"] = setting.name;
    entry["value"] = setting.value;
    entry["origin"] = setting.origin;
    entry["effect"] = setting.effect;
    all.append(entry);
  }
  return all;
}

}  // namespace

void add_settings(nb::module_& module) {
  module.def("library_version", &library_version,
             "The version of the library that is loaded, as 10000 * major + 100 * minor + patch.");
  module.def("unique_id", &unique_id,
             "128 bytes by which the ranks of one new communicator find each other. They hold its "
             "secret key: hand them on by a channel that you trust. The process that calls this "
             "must live until the communicator is made.");
  module.def("public_id", &public_id,
             "The same without the secret key, for a channel that others can read. The key then "
             "follows from TUTTI_KEY_FILE or TUTTI_KEY, which every rank has.");
  module.def("settings", &settings,
             "Every setting of the library as this process has read it: dicts with name, value, "
             "origin and effect.");
  module.def(
      "set_default",
      [](const char* name, const char* value, const char* source) {
        expect_success(tuttiSetDefault(name, value, source), nullptr);
      },
      "name"_a, "value"_a, "source"_a = "a Python program",
      "Gives a setting a value, unless the environment has its variable. It must come before any "
      "other call of the library in this process.");
  module.def(
      "trace_dump",
      [](const std::string& path) {
        expect_success(tuttiTraceDump(path.empty() ? nullptr : path.c_str()), nullptr);
      },
      "path"_a = "",
      "Appends the last calls of every communicator of this process to a file, as text; without a "
      "path, to the error output.");
}

}  // namespace tutti::python
