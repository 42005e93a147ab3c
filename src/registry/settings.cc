#include "src/registry/settings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/words.h"
#include "src/codecs/wire.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"

namespace tutti::registry {
namespace {

using Names = std::vector<std::string_view>;

/// "there is no transport 'tpc'; did you mean 'tcp'? There are loopback, shm, tcp".
Status check_name(const std::string& what, std::string_view name, const Names& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  std::string text = "there is no " + what + " '" + std::string(name) + "'";
  if (!known.empty()) text += "; did you mean '" + std::string(nearest(name, known)) + "'? There ";
  for (size_t i = 0; i < known.size(); ++i) {
    text += (i == 0 ? (known.size() == 1 ? "is " : "are ") : ", ") + std::string(known[i]);
  }
  return Status::invalid_argument(text);
}

Status check_transports(const Config& config) {
  Names known;
  for (const TransportEntry& entry : transports()) known.push_back(entry.name);
  for (const std::string& name : config.transports) {
    if (Status status = check_name("transport", name, known); !status.ok()) return status;
  }
  return {};
}

Names collectives() {
  Names names;
  for (const schedule::Algorithm& algorithm : algorithms()) {
    const std::string_view name = schedule::name_of(algorithm.collective);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

Status check_algorithm(const std::string& collective, const std::string& wanted) {
  if (Status status = check_name("collective", collective, collectives()); !status.ok()) {
    return status;
  }
  const std::vector<std::string_view> words = split(wanted, ':');
  Names known;
  uint16_t most = 0;
  for (const schedule::Algorithm& algorithm : algorithms()) {
    if (schedule::name_of(algorithm.collective) != collective) continue;
    known.push_back(algorithm.name);
    if (algorithm.name == words[0]) most = algorithm.max_lanes;
  }
  if (Status status = check_name(collective + " algorithm", words[0], known); !status.ok()) {
    return status;
  }
  if (words.size() == 1 || parse_integer<uint16_t>(words[1]).value_or(0) <= most) return {};
  return Status::invalid_argument(collective + ":" + wanted + ": this algorithm has at most " +
                                  std::to_string(most) + (most == 1 ? " lane" : " lanes"));
}

Status check_algorithms(const Config& config) {
  for (const auto& [collective, wanted] : config.algorithms) {
    if (Status status = check_algorithm(collective, wanted); !status.ok()) return status;
  }
  return {};
}

Status check_wire(const Config& config) { return codecs::parse_wire(config.wire).status(); }

Status given_by(const Config& config, std::string_view setting, const Status& status) {
  return Status(status.code(), origin_of(config, setting) + ": " + std::string(status.message()));
}

}  // namespace

Result<Config> read_settings(const Variables& variables, std::span<const Default> defaults) {
  Result<Config> read = Config::from_environment(variables, defaults);
  if (!read.ok()) return read;
  const Config& config = read.value();
  if (Status status = check_transports(config); !status.ok()) {
    return given_by(config, "TUTTI_TRANSPORTS", status);
  }
  if (Status status = check_algorithms(config); !status.ok()) {
    return given_by(config, "TUTTI_ALGORITHM", status);
  }
  if (Status status = check_wire(config); !status.ok()) {
    return given_by(config, "TUTTI_WIRE", status);
  }
  return read;
}

}  // namespace tutti::registry
