#include "tests/software_device/device/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace softdev {
namespace {

struct Row {
  const char* name;
  long Settings::*field;
};

constexpr Row kRows[] = {
    {"SOFTDEV_DEVICES", &Settings::devices},
    {"SOFTDEV_ISLAND", &Settings::island},
    {"SOFTDEV_ISLAND_SAID", &Settings::island_said},
    {"SOFTDEV_VERSION", &Settings::version},
    {"SOFTDEV_CHANNELS", &Settings::channels},
    {"SOFTDEV_QUEUE_ENTRIES", &Settings::queue_entries},
    {"SOFTDEV_ENGINES", &Settings::engines},
    {"SOFTDEV_MEMORY_MB", &Settings::memory_mb},
    {"SOFTDEV_PIECE_BYTES", &Settings::piece_bytes},
    {"SOFTDEV_SHUFFLE", &Settings::shuffle},
    {"SOFTDEV_SKEW_US", &Settings::skew_us},
    {"SOFTDEV_SEED", &Settings::seed},
    {"SOFTDEV_FREE_WAITS", &Settings::free_waits},
    {"SOFTDEV_EVENT_WAITS", &Settings::event_waits},
    {"SOFTDEV_DMABUF", &Settings::dmabuf},
    {"SOFTDEV_GRAPH_QUEUES", &Settings::graph_queues},
    {"SOFTDEV_INIT_RESULT", &Settings::init_result},
    {"SOFTDEV_MODULE_RESULT", &Settings::module_result},
    {"SOFTDEV_FUNCTION_LOADS", &Settings::function_loads},
    {"SOFTDEV_KERNELS", &Settings::kernels},
    {"SOFTDEV_MPS", &Settings::mps},
    {"SOFTDEV_MULTIPROCESSORS", &Settings::multiprocessors},
    {"SOFTDEV_MULTICAST_FAULT", &Settings::multicast_fault},
    {"SOFTDEV_MULTICAST", &Settings::multicast},
    {"SOFTDEV_STATISTICS", &Settings::statistics},
    {"SOFTDEV_THREAD_CLOCKS", &Settings::thread_clocks},
};
constexpr const char* kCheckerName = "SOFTDEV_CHECKER";

struct Read {
  Settings settings;
  std::string wrong;
};

bool take(const std::string& name, const char* value, Settings& settings) {
  if (name == kCheckerName) {
    settings.checker = value;
    return true;
  }
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    char* end = nullptr;
    const long number = std::strtol(value, &end, 10);
    settings.*row.field = number;
    return *value != '\0' && *end == '\0' && number >= 0;
  }
  return false;
}

Read* read_environment() {
  Read* read = new Read;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const char* equals = std::strchr(*variable, '=');
    if (equals == nullptr || std::strncmp(*variable, "SOFTDEV_", 8) != 0) continue;
    const std::string name(*variable, static_cast<size_t>(equals - *variable));
    if (!take(name, equals + 1, read->settings)) read->wrong = *variable;
  }
  if (read->settings.engines < 1) read->wrong = "SOFTDEV_ENGINES=0";
  if (read->settings.piece_bytes < 8) read->wrong = "SOFTDEV_PIECE_BYTES below 8";
  if (read->settings.devices > 64) read->wrong = "SOFTDEV_DEVICES above 64";
  return read;
}

const Read& once() {
  static const Read* const read = read_environment();
  return *read;
}

}  // namespace

const Settings& settings() { return once().settings; }
bool are_near(int device, int peer) {
  const long island = settings().island;
  return island == 0 || device / island == peer / island;
}
const std::string& wrong_variable() { return once().wrong; }

}  // namespace softdev
