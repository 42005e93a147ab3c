#include "tools/cli/env.h"

#include <cctype>
#include <cstdio>
#include <optional>
#include <string>

#include "src/base/config.h"
#include "tools/cli/arguments.h"

namespace tutti::cli {
namespace {

constexpr char kUsage[] =
    "usage: tutti env\n"
    "Lists Tutti's settings, each with the environment variable it is given by. '*' marks those "
    "that are set.\n";

void print_setting(const Setting& setting, const Config& config, const Config& defaults) {
  const auto origin = config.origins.find(setting.name);
  const bool set = origin != config.origins.end();
  std::string value = setting.show(config);
  const bool number = std::isdigit(static_cast<unsigned char>(value[0])) != 0;
  if (number && !setting.unit.empty()) value += " " + std::string(setting.unit);
  std::string source = "default";
  if (set) {
    source = "from " + origin->second + ", default " + setting.show(defaults);
  }
  std::printf("%c %-24s = %s  [%s]\n", set ? '*' : ' ', std::string(setting.name).c_str(),
              value.c_str(), source.c_str());
  std::printf("      %s.\n", std::string(setting.effect).c_str());
  std::printf("      Accepted: %s.", std::string(setting.accepts).c_str());
  if (!setting.nccl_name.empty()) {
    std::printf(" Also read: %s.", std::string(setting.nccl_name).c_str());
  }
  std::printf("\n");
}

}  // namespace

int env_main(int argc, char** argv) {
  if (const auto status = end_with_usage(argc, argv, kUsage)) return *status;
  const std::optional<Config> config = settings_for("tutti env");
  if (!config) return 1;
  const Result<Config> defaults = Config::from_environment({});
  for (const Setting& setting : settings()) {
    print_setting(setting, *config, defaults.value());
  }
  for (const std::string& warning : config->warnings) {
    std::fprintf(stderr, "tutti env: warning: %s\n", warning.c_str());
  }
  return 0;
}

}  // namespace tutti::cli
