// The table of all variables. A new one is a field of Config and a row here.

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/config.h"
#include "src/base/key_file.h"
#include "src/base/rdma_values.h"
#include "src/base/setting_values.h"
#include "src/base/words.h"

namespace tutti {
namespace {

constexpr std::string_view kSwitchWords = "1/0, true/false, yes/no, on/off";
constexpr std::string_view kSizeWords = "a number of bytes, with K, M or G for powers of 1024";

std::string show_text(const std::string& text) { return text.empty() ? "(unset)" : text; }
std::string show_secret(bool set) { return set ? "(set)" : "(unset)"; }
std::string show_switch(bool on) { return on ? "1" : "0"; }

/// Fields of one type share a parser: the field is a template argument, so a row stays one line.
template <auto Field>
bool take_text(std::string_view value, Config& config) {
  config.*Field = value;
  return !value.empty();
}

template <auto Field>
bool take_switch(std::string_view value, Config& config) {
  const auto parsed = parse_switch(value);
  if (parsed) config.*Field = *parsed;
  return parsed.has_value();
}

/// For variables that turn something off.
template <auto Field>
bool take_opposite(std::string_view value, Config& config) {
  const auto parsed = parse_switch(value);
  if (parsed) config.*Field = !*parsed;
  return parsed.has_value();
}

bool take_multicast(std::string_view value, Config& config) {
  const auto parsed = parse_multicast(value);
  if (parsed) config.multicast = *parsed;
  return parsed.has_value();
}

template <auto Field>
bool take_seconds(std::string_view value, Config& config) {
  const auto parsed = parse_seconds(value);
  if (parsed) config.*Field = *parsed;
  return parsed.has_value();
}

template <auto Field>
bool take_ctas(std::string_view value, Config& config) {
  const auto parsed = parse_integer<uint32_t>(value);
  if (!parsed || *parsed < 1 || *parsed > kMostCtas) return false;
  config.*Field = *parsed;
  return true;
}

/// Of words that setting_values.h reads.
template <auto Parse, auto Field>
bool take_parsed(std::string_view value, Config& config) {
  const auto parsed = Parse(value);
  if (parsed) config.*Field = *parsed;
  return parsed.has_value();
}

/// The kernel counts in seconds.
bool take_keepalive(std::string_view value, Config& config) {
  const auto parsed = parse_seconds(value);
  if (!parsed || *parsed < kNanosecondsPerSecond) return false;
  config.keepalive_ns = *parsed;
  return true;
}

template <auto Field, uint64_t kLeast, uint64_t kMost>
bool take_bytes(std::string_view value, Config& config) {
  const auto parsed = parse_bytes(value);
  if (!parsed || *parsed < kLeast || *parsed > kMost) return false;
  config.*Field = *parsed;
  return true;
}

template <auto Field>
bool take_number(std::string_view value, Config& config) {
  const auto parsed = parse_integer<std::remove_reference_t<decltype(config.*Field)>>(value);
  if (parsed) config.*Field = *parsed;
  return parsed.has_value();
}

bool take_port(std::string_view value, Config& config) {
  return take_number<&Config::port>(value, config) && config.port != 0;
}

/// Where to meet: without it, or with another, the ranks would wait for each other in vain.
bool take_id(std::string_view value, Config& config) {
  constexpr size_t kIdDigits = 256;         // of tuttiUniqueId_t
  const std::string_view id = trim(value);  // scripts leave blanks, which NCCL passes over
  const bool digits = id.size() == kIdDigits && from_hex(id).has_value();
  return (digits || parse_place(id)) && take_text<&Config::id>(id, config);
}

bool take_key(std::string_view value, Config& config) {
  config.key = parse_key(value);
  return config.key.has_value();
}

constexpr std::string_view kWord = "printable text without spaces, at most 256 bytes";
template <std::string Config::*kMember>
bool take_word(std::string_view value, Config& config) {
  constexpr size_t kMaxBytes = 256;
  const bool printable =
      std::all_of(value.begin(), value.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  return printable && value.size() <= kMaxBytes && take_text<kMember>(value, config);
}

std::string show_or_auto(uint32_t number) {
  return number == 0 ? std::string("auto") : std::to_string(number);
}

constexpr uint32_t kMostTcpFlows = 16;
bool take_tcp_flows(std::string_view value, Config& config) {
  if (value == "auto") return config.tcp_flows = 0, true;
  const auto parsed = parse_integer<uint32_t>(value);
  if (!parsed || *parsed < 1 || *parsed > kMostTcpFlows) return false;
  config.tcp_flows = *parsed;
  return true;
}

bool take_transports(std::string_view value, Config& config) {
  config.transports.clear();
  for (const std::string_view piece : split(value, ',')) {
    const std::string_view name = trim(piece);
    const bool twice = std::count(config.transports.begin(), config.transports.end(), name) > 0;
    if (!is_name(name) || twice) return false;
    config.transports.emplace_back(name);
  }
  return true;
}

/// "all_reduce:ring", or "all_reduce/ring" as commands say it, both with lanes behind: ":2".
std::optional<std::pair<std::string, std::string>> parse_algorithm(std::string_view text) {
  const size_t end = text.find_first_of("/:");
  if (end == text.npos) return std::nullopt;
  const std::string_view collective = text.substr(0, end), wanted = text.substr(end + 1);
  const std::vector<std::string_view> words = split(wanted, ':');
  if (!is_name(collective) || !is_name(words[0]) || words.size() > 2) return std::nullopt;
  if (words.size() == 2 && parse_integer<uint16_t>(words[1]).value_or(0) == 0) return std::nullopt;
  return std::pair(std::string(collective), std::string(wanted));
}

bool take_algorithms(std::string_view value, Config& config) {
  config.algorithms.clear();
  for (const std::string_view piece : split(value, ',')) {
    auto parsed = parse_algorithm(trim(piece));
    if (!parsed) return false;
    for (const auto& [collective, algorithm] : config.algorithms) {
      if (collective == parsed->first) return false;
    }
    config.algorithms.push_back(std::move(*parsed));
  }
  return true;
}

bool take_nccl_algorithms(std::string_view value, Config& config) {
  auto parsed = parse_nccl_algorithms(value);
  if (parsed) config.nccl_algorithms = std::move(*parsed);
  return parsed.has_value();
}

bool take_nccl_version(std::string_view value, Config& config) {
  constexpr int kFirstOfThisForm = 20900;
  const auto parsed = parse_integer<int>(value);
  if (!parsed || *parsed < kFirstOfThisForm || *parsed > 99999) return false;
  config.nccl_version = *parsed;
  return true;
}

bool take_nccl_blocking(std::string_view value, Config& config) {
  if (value != "0" && value != "1") return false;
  config.nccl_blocking = value == "1";
  return true;
}

bool take_nccl_net(std::string_view value, Config& config) {
  const auto network = parse_nccl_network(value);
  if (network) config.nccl_net = *network;
  return network.has_value();
}

bool take_nccl_log_subsystems(std::string_view value, Config& config) {
  for (const std::string_view piece : split(value.substr(value.starts_with('^') ? 1 : 0), ',')) {
    if (!is_name(trim(piece))) return false;
  }
  return take_text<&Config::nccl_log_subsystems>(value, config);
}

bool take_trace_records(std::string_view value, Config& config) {
  constexpr uint64_t kMostRecords = uint64_t{1} << 20;
  const auto parsed = parse_integer<uint64_t>(value);
  if (!parsed || *parsed > kMostRecords) return false;
  config.trace_records = *parsed;
  return true;
}

std::string show_transports(const Config& config) {
  std::string text;
  for (const std::string& name : config.transports) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? "(all)" : text;
}

std::string show_algorithms(const Config& config) {
  std::string text;
  for (const auto& [collective, algorithm] : config.algorithms) {
    text += (text.empty() ? "" : ",") + collective + ":" + algorithm;
  }
  return text.empty() ? "(chosen per call)" : text;
}

std::string show_nccl_algorithms(const Config& config) {
  std::string text;
  for (const auto& [collective, names] : config.nccl_algorithms) {
    text += (text.empty() ? "" : ";") + collective + ":";
    for (const std::string& name : names) text += (text.back() == ':' ? "" : ",") + name;
  }
  return text.empty() ? "(unset)" : text;
}

std::string show_port(const Config& config) {
  return config.port == 0 ? "(any)" : std::to_string(config.port);
}

bool take_single_copy(std::string_view value, Config& config) {
  const std::optional<uint64_t> bytes = parse_bytes(value);
  config.single_copy_bytes = bytes;
  return bytes.has_value() || value == "measured";
}

std::string show_single_copy(const Config& config) {
  if (!config.single_copy_bytes) return "measured";
  return *config.single_copy_bytes == 0 ? "off" : show_bytes(*config.single_copy_bytes);
}

bool take_cache(std::string_view value, Config& config) {
  config.cache_folder = value == "off" ? "" : value;
  return value == "off" || value.starts_with('/');
}

std::string show_cache(const Config& config) {
  return config.cache_folder.empty() ? "off" : config.cache_folder;
}

bool take_measuring(std::string_view value, Config& config) {
  config.measures_at_start = value == "start";
  config.measures_host = value != "off";
  return value == "start" || value == "host" || value == "off";
}

std::string show_measuring(const Config& config) {
  return config.measures_at_start ? "start" : config.measures_host ? "host" : "off";
}

std::string show_nccl_blocking(const Config& config) {
  return config.nccl_blocking ? show_switch(*config.nccl_blocking) : "(by configuration)";
}

// name, NCCL's name, unit, accepted, effect, parse, show, note, needed
constexpr Setting kSettings[] = {
    {"TUTTI_ID", "NCCL_COMM_ID", "",
     "HOST:PORT or [IPv6]:PORT with a port of 1 to 65535, or 256 hexadecimal digits of an id",
     "Where the ranks of a job meet when the program hands over no unique id, or every rank gets "
     "one by itself",
     take_id, [](const Config& c) { return show_secret(!c.id.empty()); }, "", true},
    {"TUTTI_KEY", "", "", "64 hexadecimal digits (openssl rand -hex 32)",
     "The job's secret: every connection proves it. Prefer TUTTI_KEY_FILE", take_key,
     [](const Config& c) { return show_secret(c.key.has_value()); }},
    {"TUTTI_KEY_FILE", "", "", "path of a file with mode 0600 that belongs to this user",
     "Where the job's secret is read from: 64 hexadecimal digits", take_text<&Config::key_file>,
     [](const Config& c) { return show_text(c.key_file); }},
    {"TUTTI_INSECURE", "", "", kSwitchWords,
     "Launched ranks that share no key meet without one: whoever reaches their ports can join. UCX "
     "may use TCP, where whoever reaches its ports can write to memory",
     take_switch<&Config::insecure>, [](const Config& c) { return show_switch(c.insecure); }},
    {"TUTTI_JOB", "", "", kWord,
     "A name for a launched job, equal on all its ranks and on no other's: tells apart jobs of one "
     "user that look the same",
     take_word<&Config::job>, [](const Config& c) { return show_text(c.job); }},
    {"TUTTI_HOST_ID", "", "", kWord,
     "Ranks with equal host ids try to share memory. Default: boot id, host name, namespaces",
     take_word<&Config::host_id>, [](const Config& c) { return show_text(c.host_id); }},
    {"TUTTI_PORT", "", "", "1 to 65535",
     "TCP port of the rendezvous. At MASTER_ADDR the default is MASTER_PORT + 1", take_port,
     show_port},
    {"TUTTI_TRANSPORTS", "", "",
     "a comma list of loopback, shm, ucx, verbs, flows and tcp, each once",
     "Only these transports may be used: of threads, of processes of one host, of several hosts by "
     "UCX (not unless it is named here), by RDMA, by several sockets a link, by one",
     take_transports, show_transports},
    {"TUTTI_TCP_FLOWS", "", "sockets", "auto, or 1 to 16",
     "A link between hosts has so many sockets (transport flows), which add up over far or lossy "
     "networks; auto: as many as round trip and rate of the way ask for. Equal on all ranks",
     take_tcp_flows, [](const Config& c) { return show_or_auto(c.tcp_flows); }},
    {"TUTTI_NCCL_SHM_DISABLE", "NCCL_SHM_DISABLE", "", kSwitchWords,
     "Ranks of one host share no memory and use sockets, as those of several do",
     take_opposite<&Config::shared_memory>,
     [](const Config& c) { return show_switch(!c.shared_memory); }},
    {"TUTTI_NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE", "", kSwitchWords,
     "Devices do not reach each other's memory, so what they pass on lies in pinned host memory",
     take_opposite<&Config::peer_access>,
     [](const Config& c) { return show_switch(!c.peer_access); }},
    {"TUTTI_NCCL_NET", "NCCL_NET", "", "Socket",
     "Nothing: ranks of several hosts use sockets, and plugins of NCCL are not loaded",
     take_nccl_net, [](const Config& c) { return show_text(c.nccl_net); }},
    {"TUTTI_TOPOLOGY", "", "", "path of a cluster file, which says the same on every rank",
     "Which hosts are near each other: its levels above hosts are levels of every group",
     take_text<&Config::topology_file>, [](const Config& c) { return show_text(c.topology_file); }},
    {"TUTTI_TUNING", "", "",
     "path of a model in JSON, which says the same on every rank (docs/tuning.md)",
     "What messages and copies cost, by which algorithms are chosen: instead of what was measured",
     take_text<&Config::tuning_file>, [](const Config& c) { return show_text(c.tuning_file); }},
    {"TUTTI_CACHE", "", "", "off, or the path of a folder that begins with /",
     "Where is kept what calls between hosts have taken, for later communicators of the same "
     "hosts; default: tutti in XDG_CACHE_HOME or ~/.cache",
     take_cache, show_cache},
    {"TUTTI_MEASURE", "", "", "off, host, start",
     "When a communicator is made, host: ranks that are all of one host, and not all of one "
     "process, measure once what copies cost, in a few milliseconds; start: also the network "
     "between hosts of which nothing is known, in a second at most",
     take_measuring, show_measuring},
    {"TUTTI_HOST_TOPOLOGY", "NCCL_TOPO_FILE", "", "path of a file in NCCL's XML of topologies",
     "The devices of this host are those of the file, not those that are found (tutti topo)",
     take_text<&Config::host_topology_file>,
     [](const Config& c) { return show_text(c.host_topology_file); }},
    {"TUTTI_HOST_TOPOLOGY_DUMP", "NCCL_TOPO_DUMP_FILE", "", "path of a file that is written",
     "Rank 0 of every communicator writes the devices of its host there, in NCCL's XML",
     take_text<&Config::host_topology_dump>,
     [](const Config& c) { return show_text(c.host_topology_dump); }},
    {"TUTTI_LAZY_CONNECT", "", "", kSwitchWords,
     "Ranks of different hosts connect when they first talk, not when the communicator is made",
     take_switch<&Config::lazy_connect>,
     [](const Config& c) { return show_switch(c.lazy_connect); }},
    {"TUTTI_ALGORITHM", "", "",
     "all_reduce:ring,broadcast:binomial (each collective once; names of 'tutti algorithms'; "
     "all_reduce/ring is the same, all_reduce:ring:2 is with two lanes)",
     "Forces the algorithm of a collective", take_algorithms, show_algorithms},
    {"TUTTI_DETERMINISTIC", "", "", kSwitchWords,
     "Results do not depend on algorithm, transport or timing", take_switch<&Config::deterministic>,
     [](const Config& c) { return show_switch(c.deterministic); }},
    {"TUTTI_WIRE", "", "",
     "network:int8_block,region:e3m0 (level:codec; names of 'tutti explain' and tutti/codecs.h), "
     "with always, before them also where that is not predicted to be faster",
     "Messages of these levels are encoded: fewer bytes, and rounded values",
     take_text<&Config::wire>, [](const Config& c) { return show_text(c.wire); }},
    {"TUTTI_NCCL_ALGO", "NCCL_ALGO", "",
     "Ring, Tree, PAT or lists of them, allreduce:tree;allgather:ring for some collectives",
     "In NCCL's words what TUTTI_ALGORITHM does not say; what has no counterpart forces nothing",
     take_nccl_algorithms, show_nccl_algorithms},
    {"TUTTI_TIMEOUT", "", "seconds", "none, or seconds above 0 like 30 or 0.5",
     "A call that takes longer is an error naming the rank it waits for",
     take_seconds<&Config::timeout_ns>, [](const Config& c) { return show_seconds(c.timeout_ns); }},
    {"TUTTI_INIT_TIMEOUT", "", "seconds", "none, or seconds above 0 like 30 or 0.5",
     "Making a communicator that takes longer is an error naming who did not come",
     take_seconds<&Config::init_timeout_ns>,
     [](const Config& c) { return show_seconds(c.init_timeout_ns); }},
    {"TUTTI_KEEPALIVE", "", "seconds", "none, or seconds from 1 on like 30 or 2.5",
     "A rank whose host acknowledges nothing for this long is lost; none: after the kernel's time",
     take_keepalive, [](const Config& c) { return show_seconds(c.keepalive_ns); }},
    {"TUTTI_SPIN", "", "polls", "0 to 4294967295",
     "Polls before the processor is offered to others. 0: many with a core for every rank of a "
     "communicator that is all shared memory, else a few",
     take_number<&Config::spin_polls>,
     [](const Config& c) { return std::to_string(c.spin_polls); }},
    {"TUTTI_INLINE_BYTES", "", "bytes", "0 to 1K",
     "Messages in shared memory travel together with their flag where all of a collective are this "
     "short, and few",
     take_bytes<&Config::inline_bytes, 0, kMostInlineBytes>,
     [](const Config& c) { return show_bytes(c.inline_bytes); }},
    {"TUTTI_FRAME_BYTES", "", "bytes", "4K to 1G: a number of bytes, with K, M or G",
     "Long messages run in slices of this size, per rank",
     take_bytes<&Config::frame_bytes, 4 << 10, 1 << 30>,
     [](const Config& c) { return show_bytes(c.frame_bytes); }},
    {"TUTTI_RING_BYTES", "", "bytes", "64K to 1G: a number of bytes, with K, M or G",
     "The staging ring of each lane", take_bytes<&Config::ring_bytes, 64 << 10, 1 << 30>,
     [](const Config& c) { return show_bytes(c.ring_bytes); }},
    {"TUTTI_ENGINE", "NCCL_CTA_POLICY", "",
     "auto, copy_engine (no kernels: what copy engines cannot do goes through the host), kernel, "
     "nccl (NCCL itself, which is found or TUTTI_NCCL), no_nccl (auto, but never NCCL), host; of "
     "NCCL's policies 0, 1 (both auto), 2 (copy_engine)",
     "By what calls on streams of devices run, where that can be had",
     take_parsed<parse_engine, &Config::engine>,
     [](const Config& c) { return std::string(engine_name(c.engine)); }},
    {"TUTTI_NCCL", "", "", "a file, which is NCCL's library",
     "NCCL as an engine beside Tutti's own, and for `tutti perf --vs nccl`; where nothing is said, "
     "that beside the torch of the process, or what the loader finds; never the drop-in",
     take_text<&Config::nccl_library>, [](const Config& c) { return show_text(c.nccl_library); }},
    {"TUTTI_NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE", "", kSwitchWords,
     "NCCL takes several ranks of a device, from 2.30 on: so may the engine nccl",
     take_switch<&Config::nccl_shares_devices>,
     [](const Config& c) { return show_switch(c.nccl_shares_devices); }},
    {"TUTTI_DEVICE_RING_BYTES", "", "bytes", "0 to 4G: a number of bytes, with K, M or G",
     "Device memory of each rank, through which copy engines pass on data: for collectives, and as "
     "much for sends and receives; 0: none, and calls on device memory go through the host",
     take_bytes<&Config::device_ring_bytes, 0, uint64_t{4} << 30>,
     [](const Config& c) { return show_bytes(c.device_ring_bytes); }},
    {"TUTTI_MAILBOX_BYTES", "", "bytes", "0 to 1G: a number of bytes, with K, M or G",
     "Device memory of each rank for messages of calls that one kernel runs; 0: no kernel waits",
     take_bytes<&Config::mailbox_bytes, 0, uint64_t{1} << 30>,
     [](const Config& c) { return show_bytes(c.mailbox_bytes); }},
    {"TUTTI_MULTICAST", "NCCL_NVLS_ENABLE", "", "auto, off or always; 2, 1 and 0 as NCCL's",
     "Long reductions on devices are folded by the switch between them where it can; always: also "
     "where that is not predicted to be faster. Equal on all ranks",
     take_multicast, [](const Config& c) { return std::string(multicast_name(c.multicast)); }},
    {"TUTTI_CTAS", "NCCL_MAX_CTAS", "thread blocks", "1 to 4096",
     "A kernel that reduces device memory has at most so many thread blocks, and fewer in short "
     "calls; where nobody says so, twice as many if it reads other devices",
     take_ctas<&Config::most_ctas>, [](const Config& c) { return std::to_string(c.most_ctas); }},
    {"TUTTI_LEAST_CTAS", "NCCL_MIN_CTAS", "thread blocks", "1 to 4096",
     "A kernel that reduces device memory has at least so many thread blocks",
     take_ctas<&Config::least_ctas>, [](const Config& c) { return std::to_string(c.least_ctas); }},
    {"TUTTI_SINGLE_COPY_BYTES", "", "bytes", "measured, or a number of bytes, with K, M or G",
     "From this size on read ordinary memory of another process directly; 0 is never; measured: "
     "where that was faster when ranks of this host measured it",
     take_single_copy, show_single_copy},
    {"TUTTI_STAGING_STORES", "", "", "measured, cached, streaming",
     "Whether shared staging memory is written through the cache or past it; measured: as the "
     "clock "
     "says",
     take_parsed<parse_staging_stores, &Config::staging_stores>,
     [](const Config& c) { return std::string(staging_stores_name(c.staging_stores)); }},
    {"TUTTI_CALLS_BEFORE", "", "calls", "0 to 4294967295",
     "For tests: every communicator numbers calls, transfers and windows as if there had been so "
     "many",
     take_number<&Config::calls_before>,
     [](const Config& c) { return std::to_string(c.calls_before); }},
    {"TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "",
     "eth0,ib (prefixes), =eth0 (exact), ^docker,lo (all but these)",
     "The network interfaces whose addresses are used", take_text<&Config::socket_ifname>,
     [](const Config& c) { return show_text(c.socket_ifname); }},
    {"TUTTI_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "", "any, ipv4, ipv6 (AF_INET, AF_INET6)",
     "The kind of network addresses that are used",
     take_parsed<parse_socket_family, &Config::socket_family>,
     [](const Config& c) { return std::string(socket_family_name(c.socket_family)); }},
    {"TUTTI_NCCL_VERSION", "", "", "20900 to 99999: major * 10000 + minor * 100 + patch",
     "The version that libnccl.so.2 says it is, for programs that ask for one", take_nccl_version,
     [](const Config& c) { return std::to_string(c.nccl_version); }},
    {"TUTTI_NCCL_COMM_BLOCKING", "NCCL_COMM_BLOCKING", "", "0 or 1",
     "Whether libnccl.so.2 makes communicators blocking, whatever their configuration says",
     take_nccl_blocking, show_nccl_blocking},
    {"TUTTI_LOG", "NCCL_DEBUG", "", "off, error, warn, info, debug, trace",
     "What is logged; debug and trace add nothing to info",
     take_parsed<parse_log_level, &Config::log_level>,
     [](const Config& c) { return std::string(log_level_name(c.log_level)); }},
    {"TUTTI_LOG_FILE", "NCCL_DEBUG_FILE", "", "a path; %h is the host's name, %p the process id",
     "Where the log goes instead of the error output", take_text<&Config::log_file>,
     [](const Config& c) { return show_text(c.log_file); }},
    {"TUTTI_NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_SUBSYS", "", "INIT,NET (names), ^COLL (all but these)",
     "Nothing: the log has levels and no subsystems", take_nccl_log_subsystems,
     [](const Config& c) { return show_text(c.nccl_log_subsystems); },
     "the log has no subsystems; its level alone says what is in it"},
    {"TUTTI_SLOW", "", "seconds", "none, or seconds above 0 like 30 or 0.5",
     "A call that takes longer is reported in the log, and so again after as long; so is making a "
     "communicator; it goes on",
     take_seconds<&Config::slow_ns>, [](const Config& c) { return show_seconds(c.slow_ns); }},
    {"TUTTI_TRACE_RECORDS", "", "calls", "0 (no flight recorder) to 1048576",
     "The flight recorder of a communicator keeps this many calls (tutti trace dump)",
     take_trace_records, [](const Config& c) { return std::to_string(c.trace_records); }},
    {"TUTTI_TRACE_FILE", "", "", "a path; %h is the host's name, %p the process id",
     "The flight recorder is appended to it when a communicator fails (tutti trace dump FILE)",
     take_text<&Config::trace_file>, [](const Config& c) { return show_text(c.trace_file); }},
};

}  // namespace

// Never destroyed: links may end, and look at settings, after static objects have.
std::span<const Setting> settings() {
  static const std::vector<Setting>* const all = [] {
    auto* const made = new std::vector<Setting>(std::begin(kSettings), std::end(kSettings));
    const auto rdma = rdma_settings();
    made->insert(made->end(), rdma.begin(), rdma.end());
    return made;
  }();
  return *all;
}

}  // namespace tutti
