// Every setting that Tutti has, in one table: `tutti env` prints it.
//
// A Config is made once, before the first communicator, and handed around as const. Parsing is
// strict: a value that is not understood is an error that names the variable, the value and what is
// accepted. A variable that is nearly right (TUTTI_TRANSPORT) gives a warning with the nearest
// name. Where NCCL has a variable of the same meaning it is honoured under its own name; Tutti's
// own wins, and a value of NCCL's that is not understood only warns, because it was not written for
// us; but where nothing could go on without it, it is refused (Setting::needed). Whether a
// transport or an algorithm has the name that a value gives, registry::read_settings() says.
//
// Units:   at the end of each name.
// Errors:  kInvalidArgument, kSystemError (key file).
// Threads: a value, read-only once made.
//
// Secrets never leave through Setting::show.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/rdma_settings.h"
#include "src/base/status.h"

namespace tutti {

/// The last two are names of NCCL's and others' that may be asked for: nothing is logged at them.
enum class LogLevel { kOff, kError, kWarning, kInfo, kDebug, kTrace };
enum class SocketFamily { kAny, kIpv4, kIpv6 };
/// How staging memory is written: what the clock says (src/exec/staging_stores.h), or always so.
enum class StagingStores { kMeasured, kCached, kStreaming };
/// By what a call on a stream of a device is to run, where that can be had. kNoNccl: as kAuto, but
/// not by the vendor's library.
/// Whether switches between devices fold (docs/devices.md). kAlways: also where that is not
/// predicted to be faster.
enum class MulticastWish : uint8_t { kOff, kAuto, kAlways };
/// "off", "auto" or "always"; also 0, 1 and 2, as NCCL_NVLS_ENABLE has them.
std::optional<MulticastWish> parse_multicast(std::string_view text);
std::string_view multicast_name(MulticastWish wish);
enum class EngineWish : uint8_t { kAuto, kHost, kCopyEngine, kKernel, kNccl, kNoNccl };
/// Whether the choice is left to prices, of all engines or of Tutti's own: such a wish is no reason
/// to refuse a call that another engine runs.
constexpr bool leaves_choice(EngineWish wish) {
  return wish == EngineWish::kAuto || wish == EngineWish::kNoNccl;
}
/// The most bytes that a message inside a cell has (src/plan/plan.h).
inline constexpr uint64_t kMostInlineBytes = 1024;
inline constexpr uint32_t kMostCtas = 4096;  // thread blocks of a kernel

using SecretKey = std::array<uint8_t, 32>;
/// By collective, by our name of it: what NCCL calls the algorithms wanted for it, best first.
using NcclAlgorithms = std::vector<std::pair<std::string, std::vector<std::string>>>;
using Variables = std::map<std::string, std::string>;

/// The environment of this process.
Variables process_environment();

/// Where this user's processes leave files for each other and for the user. It need not be there.
std::string runtime_folder(const Variables& variables);

/// Where this user's programs keep what they can find out again; "" where there is none.
std::string user_cache_folder(const Variables& variables);

/// A value for a variable that the environment has under neither name.
struct Default {
  std::string name;  // Tutti's or NCCL's
  std::string value;
  std::string source;  // where it was found, for messages: "/etc/nccl.conf"
};

struct Config {
  /// Of several defaults for one variable the first counts.
  static Result<Config> from_environment(const Variables& variables = process_environment(),
                                         std::span<const Default> defaults = {});

  // This process and its job.
  std::string id;                // HOST:PORT, or the digits of an id: src/bootstrap reads them
  std::optional<SecretKey> key;  // from TUTTI_KEY or TUTTI_KEY_FILE
  std::string key_file;
  bool insecure = false;
  std::string host_id;  // empty: found out
  std::string job;      // empty: as the launcher calls it
  uint16_t port = 0;    // 0: any

  // Transports, algorithms and limits.
  std::vector<std::string> transports;  // empty: all, in order of registration
  std::vector<std::pair<std::string, std::string>> algorithms;  // "all_reduce", "ring:2"
  NcclAlgorithms nccl_algorithms;  // for collectives that `algorithms` does not name
  bool deterministic = false;
  std::string wire;  // which levels encode their messages: src/codecs/wire.h reads it; empty: none
  EngineWish engine = EngineWish::kAuto;
  std::string nccl_library;          // a file; empty: found
  bool nccl_shares_devices = false;  // NCCL was told that ranks may use one device
  std::string topology_file;         // the cluster; empty: nobody says what is above hosts
  std::string tuning_file;           // the model by which algorithms are chosen; empty: none
  std::string cache_folder;          // where what was measured is kept; empty: nowhere
  bool measures_host = true;         // ranks of one host measure what calls cost among them
  bool measures_at_start = false;    // a network of which nobody says anything
  std::string host_topology_file;    // this host, in NCCL's XML; empty: found out
  std::string host_topology_dump;    // where it is written; empty: nowhere
  bool lazy_connect = true;
  bool shared_memory = true;  // false: no transport that shares it

  // How long to wait.
  uint64_t timeout_ns = kNoDeadline;
  uint64_t init_timeout_ns = kNoDeadline;
  uint64_t keepalive_ns = 60 * kNanosecondsPerSecond;
  uint32_t spin_polls = 0;  // 0: spins_for

  // Sizes.
  uint64_t inline_bytes = kMostInlineBytes;
  uint64_t frame_bytes = 512 << 10;
  uint64_t ring_bytes = 4 << 20;
  uint64_t device_ring_bytes = 64 << 20;  // 0: device memory crosses to the host
  uint64_t mailbox_bytes = 8 << 20;       // of all peers; 0: no kernel waits
  MulticastWish multicast = MulticastWish::kAuto;
  bool peer_access = true;                    // devices copy from each other's memory
  uint32_t most_ctas = 16;                    // blocks of a kernel that folds, up to kMostCtas
  uint32_t least_ctas = 1;                    // wins over the most
  std::optional<uint64_t> single_copy_bytes;  // 0: off; none: where it was measured to be faster
  StagingStores staging_stores = StagingStores::kMeasured;

  // For tests: where the numbers of every communicator begin.
  uint32_t calls_before = 0;

  // Sockets.
  std::string socket_ifname;
  SocketFamily socket_family = SocketFamily::kAny;

  RdmaSettings rdma;
  uint32_t tcp_flows = 1;  // sockets of a link between hosts; 0: as many as the round trip asks for

  // The drop-in: what it says it is; how it makes communicators whatever their configuration says.
  int nccl_version = 23007;
  std::optional<bool> nccl_blocking;
  // Read so that programs may ask for them; Setting::note says why they change nothing.
  std::string nccl_net;
  std::string nccl_log_subsystems;

  // Messages.
  LogLevel log_level = LogLevel::kWarning;
  std::string log_file;
  uint64_t slow_ns = 60 * kNanosecondsPerSecond;
  uint64_t trace_records = 1024;  // of each communicator; 0: none
  std::string trace_file;         // no setting: in a folder that is this user's alone

  /// The variable that set it, and where if not in the environment ("NCCL_DEBUG in FILE"), or
  /// nothing for the library's own value; by the name in settings().
  std::map<std::string, std::string, std::less<>> origins;
  /// Warnings about the settings, to be logged once there is a logger.
  std::vector<std::string> warnings;
};

/// For messages: the variable that set this one, and where if not in the environment; its own name
/// where nobody has.
std::string origin_of(const Config& config, std::string_view setting);

/// One row of the table.
struct Setting {
  std::string_view name;
  std::string_view nccl_name;  // "" where NCCL has none
  std::string_view unit;       // "" where there is none
  std::string_view accepts;
  std::string_view effect;
  /// False if the value is not what `accepts` says.
  bool (*parse)(std::string_view value, Config& config);
  std::string (*show)(const Config& config);
  /// Said once in the log where the setting is given and not the default: why it does not do what
  /// NCCL's users expect. "": it does.
  std::string_view note = {};
  /// A value under NCCL's name that is not understood is refused as well, because going on without
  /// it ends in waiting for nobody. An empty one is none, as with NCCL.
  bool needed = false;
};

std::span<const Setting> settings();

/// Whether a setting has this name, as Tutti's or NCCL's.
bool is_setting(std::string_view name);

/// The known name that is nearest to a misspelt one.
std::string_view nearest_setting(std::string_view name);

}  // namespace tutti
