#include "tools/cli/doctor_checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "src/base/words.h"
#include "src/bootstrap/interfaces.h"
#include "transports/verbs/card_port.h"

namespace tutti::cli {
namespace {

using Verdict = DoctorFinding::Verdict;
namespace verbs = transports::verbs;

constexpr uint64_t kNoLimit = ~uint64_t{0};
// Slots of 60 links, and some hundred megabytes of registered memory.
constexpr uint64_t kEnoughLockable = uint64_t{512} << 20;
constexpr uint64_t kEnoughFiles = 4096;
constexpr uint64_t kEnoughBuffer = 4 << 20;  // 1 Gbit/s over 30 ms
constexpr int kLeastMtu = 1280, kJumboMtu = 9000;

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

uint64_t limit_of(int resource, bool hard) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return 0;
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? kNoLimit : value;
}

std::string mtu_text(int mtu_code) { return std::to_string(128 << mtu_code); }

DoctorFinding look_at_cards(const Config& config, const DoctorSources& sources) {
  const std::string subject = "RDMA";
  const auto ports = verbs::list_ports(sources.equipment.cards_folder);
  if (ports.empty()) {
    return {Verdict::kNote, subject, "no card: ranks of other hosts are reached by TCP", ""};
  }
  const auto port = verbs::choose_port(ports, config.rdma, {0, verbs::own_numa_node(), {}});
  if (!port.ok()) {
    return {Verdict::kWrong, subject, std::string(port.status().message()), "see docs/rdma.md"};
  }
  const auto opened = verbs::Adapter::open(sources.equipment, port.value(), config.rdma);
  if (!opened.ok()) {
    return {Verdict::kWrong, subject, std::string(opened.status().message()), "see docs/rdma.md"};
  }
  const verbs::Adapter& adapter = *opened.value();
  const int node = port.value().numa_node;
  return {Verdict::kRight, subject,
          "port " + port.value().text() + " of " + std::to_string(ports.size()) + ", GID index " +
              std::to_string(adapter.gid_index()) + " (" +
              std::string(verbs::gid_kind_name(adapter.gid_kind())) + "), packets of " +
              mtu_text(adapter.attributes().active_mtu) + " bytes, NUMA node " +
              (node < 0 ? "not known" : std::to_string(node)),
          ""};
}

DoctorFinding look_at_locked_memory(const DoctorSources& sources) {
  const std::string subject = "locked memory";
  if (sources.lockable_bytes == kNoLimit) return {Verdict::kRight, subject, "no limit", ""};
  const std::string found = std::to_string(sources.lockable_bytes >> 10) + " KiB";
  if (verbs::list_ports(sources.equipment.cards_folder).empty()) {
    return {Verdict::kNote, subject, found + ", which only RDMA would need", ""};
  }
  if (sources.lockable_bytes >= kEnoughLockable) return {Verdict::kRight, subject, found, ""};
  return {Verdict::kWrong, subject, found + " (only root's processes may lock more)",
          "ulimit -l unlimited; LimitMEMLOCK=infinity for a service; --ulimit memlock=-1 for a "
          "container"};
}

DoctorFinding look_at_files(const DoctorSources& sources) {
  const std::string subject = "open files";
  const std::string found = "a hard limit of " + std::to_string(sources.open_files);
  if (sources.open_files == kNoLimit) return {Verdict::kRight, subject, "no limit", ""};
  if (sources.open_files >= kEnoughFiles) return {Verdict::kRight, subject, found, ""};
  return {Verdict::kWrong, subject, found + ", too few for jobs of a thousand ranks",
          "ulimit -Hn 65536, as root; /etc/security/limits.conf"};
}

DoctorFinding look_at_interface(const DoctorSources& sources) {
  const std::string subject = "network";
  if (sources.interface.empty()) {
    return {Verdict::kWrong, subject, sources.no_interface, "TUTTI_SOCKET_IFNAME"};
  }
  const auto mtu =
      parse_integer<int>(first_line(sources.sys + "/class/net/" + sources.interface + "/mtu"));
  const std::string found = "addresses of " + sources.interface + ", MTU " +
                            (mtu ? std::to_string(*mtu) : "not known") +
                            " (TUTTI_SOCKET_IFNAME chooses another one)";
  if (mtu && *mtu < kLeastMtu) {
    return {Verdict::kWrong, subject, found, "an MTU of at least 1280, equal on all hosts"};
  }
  const bool is_small = mtu && *mtu < kJumboMtu;
  return {is_small ? Verdict::kNote : Verdict::kRight, subject,
          found + (is_small ? "; 9000, on all hosts and switches, costs less processor time" : ""),
          ""};
}

DoctorFinding look_at_buffers(const DoctorSources& sources) {
  const std::string subject = "TCP buffers";
  std::string line = first_line(sources.proc + "/sys/net/ipv4/tcp_rmem");
  std::replace(line.begin(), line.end(), '\t', ' ');
  const auto words = split(line, ' ');
  const auto most = parse_integer<uint64_t>(words.empty() ? "" : words.back());
  if (!most) return {Verdict::kNote, subject, "not known", ""};
  const std::string found = "up to " + std::to_string(*most >> 10) + " KiB";
  if (*most >= kEnoughBuffer) return {Verdict::kRight, subject, found, ""};
  return {
      Verdict::kWrong, subject, found + ", which bounds the rate over long links",
      "sysctl net.ipv4.tcp_rmem='4096 131072 16777216' net.ipv4.tcp_wmem='4096 65536 16777216'"};
}

DoctorFinding look_at_clock(const DoctorSources& sources) {
  const std::string subject = "clock";
  const std::string source =
      first_line(sources.sys + "/devices/system/clocksource/clocksource0/current_clocksource");
  if (source.empty()) return {Verdict::kNote, subject, "not known", ""};
  const bool slow = source == "hpet" || source == "acpi_pm" || source == "jiffies";
  if (!slow) return {Verdict::kRight, subject, source, ""};
  return {Verdict::kWrong, subject, source + ": every look at the time is a slow system call",
          "find out in the kernel's log why tsc was given up"};
}

DoctorFinding look_at_single_copies(const DoctorSources& sources) {
  const std::string subject = "memory of other processes";
  const auto scope = parse_integer<int>(first_line(sources.proc + "/sys/kernel/yama/ptrace_scope"));
  if (!scope || *scope == 0) {
    return {Verdict::kRight, subject, "the kernel's ptrace_scope does not forbid it", ""};
  }
  return {Verdict::kNote, subject,
          "ptrace_scope is " + std::to_string(*scope) +
              ": single copies (TUTTI_SINGLE_COPY_BYTES) need sysctl kernel.yama.ptrace_scope=0",
          ""};
}

}  // namespace

DoctorSources DoctorSources::of_this_process(const Config& config) {
  DoctorSources sources;
  const bool is_root = geteuid() == 0;
  sources.lockable_bytes = is_root ? kNoLimit : limit_of(RLIMIT_MEMLOCK, false);
  sources.open_files = limit_of(RLIMIT_NOFILE, true);
  const auto all = bootstrap::list_interfaces();
  const auto chosen = all.ok() ? bootstrap::choose_interfaces(all.value(), config)
                               : Result<std::vector<bootstrap::Interface>>(all.status());
  if (chosen.ok()) {
    sources.interface = chosen.value().front().name;
  } else {
    sources.no_interface = chosen.status().message();
  }
  return sources;
}

std::vector<DoctorFinding> examine(const Config& config, const DoctorSources& sources) {
  return {look_at_cards(config, sources), look_at_locked_memory(sources),
          look_at_interface(sources),     look_at_buffers(sources),
          look_at_files(sources),         look_at_single_copies(sources),
          look_at_clock(sources)};
}

}  // namespace tutti::cli
