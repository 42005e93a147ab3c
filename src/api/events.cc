#include "src/api/events.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "include/tutti/tutti.h"
#include "src/api/process.h"
#include "src/base/caught.h"
#include "src/base/clock.h"

namespace tutti::api {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "";  // its version has its name
#else
constexpr const char* kCompiler = "GCC ";
#endif

/// Null where nobody wants to know.
Logger* curious_log() {
  const Result<Process*> process = Process::current();
  if (!process.ok()) return nullptr;
  Logger* log = process.value()->env().log;
  return log->enabled(LogLevel::kInfo) ? log : nullptr;
}

std::string name_of(const CommConfig& config) {
  return config.name.empty() ? "communicator" : "communicator '" + config.name + "'";
}

/// "id 00c0ffee00c0ffee, rank 1 of 4".
std::string identity_of(const comm::Communicator& communicator) {
  return fmt::format("id {:016x}, rank {} of {}", communicator.id(), communicator.rank(),
                     communicator.ranks());
}

/// "2 hosts, 1 rank by shm, 2 ranks by tcp".
std::string ways_of(const comm::Communicator& communicator) {
  const comm::Membership& members = communicator.membership();
  const uint32_t hosts = members.group()->hosts();
  std::map<std::string, int> ranks_by;
  for (const comm::Profile& profile : members.profiles()) {
    if (!profile.transport.empty()) ++ranks_by[profile.transport];
  }
  std::string text = fmt::format("{} host{}", hosts, hosts == 1 ? "" : "s");
  for (const auto& [transport, ranks] : ranks_by) {
    text += fmt::format(", {} rank{} by {}", ranks, ranks == 1 ? "" : "s", transport);
  }
  return text;
}

/// `communicator` is null where this rank gets none.
void tell_made(const char* call, const std::string& name, const comm::Communicator* communicator,
               uint64_t took_ns) {
  Logger* log = curious_log();
  if (log == nullptr) return;
  const double took = static_cast<double>(took_ns) / kNanosecondsPerMillisecond;
  if (communicator == nullptr) {
    log->info("{}: no communicator for this rank, {:.1f} ms", call, took);
  } else {
    log->info("{} made by {}: {}, {}, {:.1f} ms", name, call, identity_of(*communicator),
              ways_of(*communicator), took);
  }
}

}  // namespace

void tell_start(const Config& config, Logger& log) {
  if (!log.enabled(LogLevel::kInfo)) return;
  log.info("Tutti {}.{}.{}, built by {}{}", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH, kCompiler,
           __VERSION__);
  for (const Setting& setting : settings()) {
    const auto origin = config.origins.find(setting.name);
    if (origin != config.origins.end()) log.info("{}: {}", origin->second, setting.show(config));
  }
}

Initializer told(const char* call, const CommConfig& config, Initializer make) {
  return [call, name = name_of(config), make = std::move(make)](const WaitLimit& wait_limit) {
    const uint64_t began_ns = monotonic_ns();
    Result<std::unique_ptr<comm::Communicator>> made = make(wait_limit);
    attempt([&] {
      if (made.ok()) {
        tell_made(call, name, made.value().get(), monotonic_ns() - began_ns);
      } else if (Logger* log = curious_log(); log != nullptr) {
        log->info("{} could not be made by {}: {}", name, call, made.status().message());
      }
    });
    return made;
  };
}

void tell(const tuttiComm& handle, const comm::Communicator& communicator, const char* event) {
  attempt([&] {
    Logger* log = curious_log();
    if (log == nullptr) return;
    log->info("{} {}: {}", name_of(handle.config), event, identity_of(communicator));
  });
}

}  // namespace tutti::api
