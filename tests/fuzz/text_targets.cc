// Targets for what people and files say.
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/config.h"
#include "src/base/key_file.h"
#include "src/base/setting_values.h"
#include "src/base/words.h"
#include "src/bootstrap/launch/launcher.h"
#include "src/bootstrap/unique_id.h"
#include "src/registry/algorithms.h"
#include "src/schedule/text.h"
#include "tests/fuzz/targets.h"

namespace tutti::fuzz {
namespace {

constexpr std::string_view kKey =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

bootstrap::UniqueId sample_id() {
  bootstrap::UniqueId id;
  id.addresses = {bootstrap::Address::parse("127.0.0.1").value(),
                  bootstrap::Address::parse("fd00::1").value()};
  id.port = 4000;
  id.job.fill(1);
  id.key.fill(2);
  return id;
}

bool decode_id(Bytes input) {
  const auto id = bootstrap::UniqueId::decode(input);
  if (!id.ok()) return false;
  const bootstrap::UniqueIdBytes again = id.value().encode();
  require(std::equal(again.begin(), again.end(), input.begin(), input.end()),
          "an id that is accepted is the one that was written");
  return true;
}

/// The same bytes under a checksum that fits: else few would reach what lies behind it.
bool decode_with_checksum(Bytes input) {
  if (input.size() != bootstrap::kUniqueIdBytes) return false;
  constexpr size_t kChecksumAt = 124;
  std::vector<uint8_t> bytes(input.begin(), input.end());
  std::array<uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), bytes.data(), kChecksumAt, nullptr, 0);
  std::copy_n(hash.begin(), bytes.size() - kChecksumAt, bytes.begin() + kChecksumAt);
  return decode_id(bytes);
}

Variables variables_of(std::string_view text) {
  Variables variables;
  for (const std::string_view line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    // The contents of the file at a path are not the parser's affair.
    const std::string_view name = line.substr(0, equals);
    if (name != "TUTTI_KEY_FILE") variables.emplace(name, line.substr(equals + 1));
  }
  return variables;
}

/// True if the value stands nowhere else in the environment.
bool alone(const Variables& variables, const std::string& secret) {
  size_t places = 0;
  for (const auto& [name, value] : variables) {
    places += name.find(secret) != std::string::npos || value.find(secret) != std::string::npos;
  }
  return places == 1;
}

/// Messages may be shown to anybody.
void require_no_secret(const Variables& variables, std::string_view message) {
  constexpr size_t kShort = 8;  // such a value may be part of a message by accident
  for (const char* name : {"TUTTI_KEY", "TUTTI_ID"}) {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.size() < kShort) continue;
    if (!alone(variables, found->second)) continue;
    // A value that is no id is no secret either: a message shows it.
    const bool digits =
        found->second.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (name == std::string_view("TUTTI_ID") && !(digits && found->second.size() >= 32)) continue;
    require(message.find(found->second) == std::string_view::npos, "no message shows a secret");
  }
}

/// A file that only this process has.
int private_file() {
  static const int file = [] {
    const int made = memfd_create("tutti-fuzz", MFD_CLOEXEC);
    require(made >= 0 && fchmod(made, 0600) == 0, "a file for keys");
    return made;
  }();
  return file;
}

}  // namespace

bool run_unique_id(Bytes input) {
  const bool sound = decode_id(input);
  const bool repaired = decode_with_checksum(input);
  const auto text = bootstrap::UniqueId::from_text(as_text(input));
  const auto place = parse_place(as_text(input));
  if (place) require(!place->host.empty() && place->port != 0, "a place has a host and a port");
  return sound || repaired || text.ok() || place.has_value();
}

std::vector<std::string> corpus_unique_id() {
  const bootstrap::UniqueIdBytes bytes = sample_id().encode();
  const std::string binary(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {binary, to_hex(binary), "127.0.0.1:4000", "[fd00::1]:65535", "host.example:1"};
}

bool run_environment(Bytes input) {
  const Variables variables = variables_of(as_text(input));
  const auto config = Config::from_environment(variables);
  if (!config.ok()) require_no_secret(variables, config.status().message());
  if (config.ok()) {
    for (const std::string& warning : config.value().warnings) {
      require_no_secret(variables, warning);
    }
    for (const Setting& setting : settings()) {
      require_no_secret(variables, setting.show(config.value()));
    }
  }
  const auto launch = bootstrap::find_launch(variables);
  if (launch.ok()) {
    require(launch.value().rank >= 0 && launch.value().rank < launch.value().ranks,
            "a rank is one of the ranks");
  }
  return config.ok();
}

std::vector<std::string> corpus_environment() {
  return {
      "TUTTI_KEY=" + std::string(kKey) + "\nTUTTI_ID=127.0.0.1:4000\nTUTTI_PORT=29501\n",
      "TUTTI_TRANSPORTS=shm,tcp\nTUTTI_ALGORITHM=all_reduce:ring,broadcast:binomial\n"
      "TUTTI_TIMEOUT=0.5\nTUTTI_INIT_TIMEOUT=none\nTUTTI_DETERMINISTIC=yes\n",
      "TUTTI_INLINE_BYTES=1K\nTUTTI_FRAME_BYTES=512KiB\nTUTTI_RING_BYTES=4M\nTUTTI_SPIN=100\n"
      "TUTTI_SINGLE_COPY_BYTES=64K\nTUTTI_SOCKET_IFNAME=^docker,lo\nTUTTI_SOCKET_FAMILY=ipv4\n",
      "NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME==eth0\nTUTTI_LOG_FILE=/tmp/%h.%p\nTUTTI_HOST_ID=a-b\n",
      "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=4\nMASTER_ADDR=10.0.0.1\n"
      "MASTER_PORT=29500\nTORCHELASTIC_RUN_ID=x\nTUTTI_INSECURE=1\n",
      "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nPMIX_NAMESPACE=1\nPMIX_RANK=0\n",
      "SLURM_PROCID=1\nSLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=1\nSLURM_JOB_ID=9\n",
  };
}

bool run_schedule(Bytes input) {
  const auto set = schedule::parse(as_text(input));
  if (!set.ok()) {
    require(!set.status().message().empty(), "a refusal says why");
    return false;
  }
  const std::string text = schedule::print(set.value().shape, set.value().schedules);
  const auto again = schedule::parse(text);
  require(again.ok(), "what is printed is read again");
  require(schedule::print(again.value().shape, again.value().schedules) == text,
          "what is read is what was printed");
  return true;
}

std::vector<std::string> corpus_schedule() {
  std::vector<std::string> texts;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    const schedule::Parameters parameters{.ranks = 4, .lanes = algorithm.max_lanes};
    std::vector<schedule::Schedule> schedules;
    for (int rank = 0; rank < parameters.ranks; ++rank) {
      schedules.push_back(algorithm.schedule(parameters, rank));
    }
    texts.push_back(schedule::print(algorithm.shape(parameters), schedules));
  }
  return texts;
}

bool run_key_file(Bytes input) {
  const int file = private_file();
  require(ftruncate(file, 0) == 0, "an empty file");
  require(pwrite(file, input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()),
          "a written file");
  const auto key = read_key_file("/proc/self/fd/" + std::to_string(file));
  const std::string_view text = trim(as_text(input));
  if (!key.ok()) {
    const bool long_enough = text.size() >= 8;
    require(!long_enough || key.status().message().find(text) == std::string_view::npos,
            "no message shows a key");
    return false;
  }
  require(from_hex(text) == std::string(key.value().begin(), key.value().end()),
          "a key is what the file says");
  return true;
}

std::vector<std::string> corpus_key_file() {
  return {std::string(kKey), std::string(kKey) + "\n", " " + std::string(kKey) + " \r\n"};
}

}  // namespace tutti::fuzz
