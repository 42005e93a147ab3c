#include "tools/cli/health.h"

#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "src/base/clock.h"
#include "src/health/analysis.h"
#include "src/health/counters.h"
#include "src/health/slow_peers.h"
#include "src/topology/text_file.h"
#include "src/trace/reader.h"
#include "tools/cli/metrics_port.h"

namespace tutti::cli {
namespace {

using health::CommunicatorHealth;
using health::HealthVerdict;

struct HealthOptions {
  uint64_t every_s = 5;
  uint64_t times = 0;  // 0: until it is ended
  uint64_t hang_s = 10;
  std::string metrics;  // a file
  int port = -1;        // -1: none
  std::string address = "127.0.0.1";
};

/// Looks at all recorders of this user's processes on this host, again and again.
class HealthWatch {
 public:
  explicit HealthWatch(const HealthOptions& options) : options_(options) {
    rules_.hang_ns = options.hang_s * 1'000'000'000;
    if (options.port < 0) return;
    Result<MetricsPort> opened =
        MetricsPort::open(options.address, static_cast<uint16_t>(options.port));
    if (!opened.ok()) throw perf::PerfError(std::string(opened.status().message()));
    port_.emplace(std::move(opened).value());
    std::printf("counters at http://%s:%u/metrics\n", options.address.c_str(), port_->port());
    std::fflush(stdout);
  }

  int run() {
    for (uint64_t look = 1; options_.times == 0 || look <= options_.times; ++look) {
      const uint64_t next = monotonic_ns() + options_.every_s * 1'000'000'000;
      look_once();
      if (look == options_.times) break;
      if (port_) {
        while (port_->serve_one(counters_.prometheus_text(), next)) continue;
      } else {
        const uint64_t now = monotonic_ns();
        if (now < next) poll(nullptr, 0, static_cast<int>((next - now) / 1'000'000));
      }
    }
    return told_.empty() ? 0 : 1;
  }

 private:
  void look_once() {
    std::vector<health::RankRecorder> recorders;
    std::vector<trace::Snapshot> snapshots;
    for (const pid_t process : trace::find_processes()) {
      Result<trace::Recorders> found = trace::read_process(process);
      if (!found.ok()) continue;  // it has ended meanwhile
      for (trace::Snapshot& one : found.value().snapshots) {
        snapshots.push_back(one);
        recorders.push_back({std::move(one), monotonic_ns()});
      }
    }
    counters_.add(snapshots);
    for (const health::SlowPeer& peer : slow_peers_.add(snapshots)) tell(peer);
    for (const CommunicatorHealth& one : health::analyse(recorders, rules_)) tell(one);
    if (options_.metrics.empty()) return;
    const Status kept = topology::write_text_file(options_.metrics, counters_.prometheus_text());
    if (!kept.ok()) throw perf::PerfError(std::string(kept.message()));
  }

  // Each verdict once, as long as it is the same.
  void tell(const CommunicatorHealth& one) {
    for (const HealthVerdict& verdict : one.verdicts) {
      // Ranks of other hosts are not to be seen from here.
      if (verdict.kind == health::HealthKind::kMissing && verdict.evidence.empty()) continue;
      const Told told{verdict.communicator, static_cast<int>(verdict.kind), verdict.ranks};
      if (!told_.insert(told).second) continue;
      std::printf("communicator %#llx: %s: %s\n",
                  static_cast<unsigned long long>(verdict.communicator),
                  health::name_of(verdict.kind), verdict.sentence.c_str());
      std::fflush(stdout);
    }
  }

  void tell(const health::SlowPeer& peer) {
    if (!told_.insert({peer.communicator, kSlowPeer, {peer.rank}}).second) return;
    std::printf(
        "communicator %#llx: slower than its peers for %u looks: rank %d is %.3f ms between "
        "calls, the median of all is %.3f ms\n",
        static_cast<unsigned long long>(peer.communicator), kWindows, peer.rank,
        peer.between_ns / 1e6, peer.usual_between_ns / 1e6);
    std::fflush(stdout);
  }

  static constexpr int kSlowPeer = -1;  // beside the kinds of verdicts
  static constexpr uint32_t kWindows = health::MonitorRules{}.windows;
  using Told = std::tuple<uint64_t, int, std::vector<int>>;

  const HealthOptions& options_;
  health::HealthRules rules_;
  health::CallCounters counters_;
  health::SlowPeers slow_peers_;
  std::optional<MetricsPort> port_;
  std::set<Told> told_;
};

}  // namespace

int health_main(int argc, char** argv) {
  try {
    HealthOptions options;
    perf::CommandLine line(
        "watches the communicators of this user's processes on this host, from outside: says what "
        "is wrong, and counts for Prometheus",
        "tutti health");
    line.add({"--every", "S", "seconds between two looks", "5"}, options.every_s, 1, 86'400);
    line.add({"--times", "N", "looks; 0: until it is ended", "0"}, options.times, 0, 1 << 30);
    line.add({"--hang", "S", "seconds after which a call hangs", "10"}, options.hang_s, 0, 86'400);
    line.add({"--metrics", "FILE", "write counters there, anew at each look"}, options.metrics);
    line.add({"--port", "N", "answer there with the counters, too; 0: any free one"}, options.port,
             0, 65'535);
    line.add({"--address", "A",
              "of this host for --port; others than the loopback's are seen by "
              "the network",
              "127.0.0.1"},
             options.address);
    if (const std::optional<int> end = line.parse(argc, argv)) return *end;
    return HealthWatch(options).run();
  } catch (const perf::PerfError& error) {
    std::fprintf(stderr, "tutti health: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
