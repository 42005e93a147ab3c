#include "src/base/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "src/base/key_file.h"
#include "src/base/setting_values.h"
#include "src/base/words.h"

extern char** environ;

namespace tutti {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Whether it may be an id, or a piece of one that holds a part of its key. A place is no secret.
bool may_be_an_id(std::string_view value) {
  constexpr size_t kDigits = 32;
  size_t run = 0;
  return std::any_of(value.begin(), value.end(), [&](unsigned char letter) {
    run = std::isxdigit(letter) != 0 ? run + 1 : 0;
    return run == kDigits;
  });
}

/// A secret must not come back in a message about it.
std::string show_refused(const Setting& setting, std::string_view value) {
  const bool secret =
      setting.name == "TUTTI_KEY" || (setting.name == "TUTTI_ID" && may_be_an_id(value));
  return secret ? "(a value of " + std::to_string(value.size()) + " bytes)" : quoted(value);
}

Status refuse(std::string_view variable, const Setting& setting, std::string_view value) {
  return Status::invalid_argument(std::string(variable) + "=" + show_refused(setting, value) +
                                  " is not understood; accepted: " + std::string(setting.accepts));
}

/// By name.
using Given = std::map<std::string, Default, std::less<>>;

/// For messages.
std::string origin_of(const Default& given) {
  return given.source.empty() ? given.name : given.name + " in " + given.source;
}

void take(const Setting& setting, const Default& given, Config& config) {
  config.origins[std::string(setting.name)] = origin_of(given);
  if (setting.note.empty() || setting.show(config) == setting.show(Config{})) return;
  config.warnings.push_back(origin_of(given) + ": " + std::string(setting.note));
}

/// Under either name, whatever the value: an empty one is how a user keeps a file's away.
bool knows(const Given& given, const Setting& setting) {
  return given.contains(setting.name) ||
         (!setting.nccl_name.empty() && given.contains(setting.nccl_name));
}

Status apply(const Setting& setting, const Given& given, Config& config) {
  const auto ours = given.find(setting.name);
  if (ours != given.end()) {
    const std::string& value = ours->second.value;
    if (!setting.parse(value, config)) return refuse(origin_of(ours->second), setting, value);
    take(setting, ours->second, config);
    return {};
  }
  const auto theirs = given.find(setting.nccl_name);
  if (setting.nccl_name.empty() || theirs == given.end()) return {};
  if (!setting.parse(theirs->second.value, config)) {
    const Status refusal = refuse(origin_of(theirs->second), setting, theirs->second.value);
    if (setting.needed && !theirs->second.value.empty()) return refusal;
    config.warnings.push_back(std::string(refusal.message()) + "; ignored");
    return {};
  }
  take(setting, theirs->second, config);
  return {};
}

Status load_key(Config& config) {
  if (config.key_file.empty()) return {};
  if (config.key) {
    return Status::invalid_argument("TUTTI_KEY and TUTTI_KEY_FILE are both set; unset one of them");
  }
  Result<SecretKey> key = read_key_file(config.key_file);
  if (!key.ok()) return key.status();
  config.key = key.value();
  return {};
}

bool known(std::string_view name) {
  const auto all = settings();
  return std::any_of(all.begin(), all.end(), [&](const Setting& s) { return s.name == name; });
}

void warn_about_unknown(const Variables& variables, Config& config) {
  for (const auto& [name, value] : variables) {
    if (!name.starts_with("TUTTI_") || known(name)) continue;
    config.warnings.push_back(name + " is not a variable that Tutti reads; did you mean " +
                              std::string(nearest_setting(name)) + "? ('tutti env' lists all)");
  }
}

}  // namespace

Variables process_environment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string runtime_folder(const Variables& variables) {
  const auto own = variables.find("XDG_RUNTIME_DIR");
  struct stat found {};
  if (own != variables.end() && stat(own->second.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
      found.st_uid == geteuid()) {
    return own->second + "/tutti";
  }
  return "/tmp/tutti-" + std::to_string(geteuid());
}

std::string user_cache_folder(const Variables& variables) {
  const auto value = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  if (std::string own = value("XDG_CACHE_HOME"); !own.empty()) return own + "/tutti";
  const std::string home = value("HOME");
  return home.empty() ? "" : home + "/.cache/tutti";
}

Result<Config> Config::from_environment(const Variables& variables,
                                        std::span<const Default> defaults) {
  Config config;
  Given environment, files;
  for (const auto& [name, value] : variables) environment.emplace(name, Default{name, value, ""});
  for (const Default& given : defaults) files.emplace(given.name, given);
  for (const Setting& setting : settings()) {
    const Given& given = knows(environment, setting) ? environment : files;
    if (Status status = apply(setting, given, config); !status.ok()) return status;
  }
  if (!config.origins.contains("TUTTI_CACHE")) config.cache_folder = user_cache_folder(variables);
  if (!config.origins.contains("TUTTI_TRACE_FILE")) {
    config.trace_file = runtime_folder(variables) + "/trace-%h-%p";
  }
  if (Status status = load_key(config); !status.ok()) return status;
  warn_about_unknown(variables, config);
  return config;
}

std::string origin_of(const Config& config, std::string_view setting) {
  const auto origin = config.origins.find(setting);
  return origin == config.origins.end() ? std::string(setting) : origin->second;
}

bool is_setting(std::string_view name) {
  const auto all = settings();
  return !name.empty() && std::any_of(all.begin(), all.end(), [&](const Setting& setting) {
    return setting.name == name || setting.nccl_name == name;
  });
}

std::string_view nearest_setting(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Setting& setting : settings()) names.push_back(setting.name);
  return nearest(name, names);
}

}  // namespace tutti
