#include "tools/cli/pair_measurement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "perf/collectives/error.h"
#include "src/base/clock.h"
#include "src/base/host_name.h"
#include "src/registry/settings.h"
#include "tools/topology/rounds.h"
#include "tutti/tutti.h"

namespace tutti::cli {

using namespace perf;
using topology::LinkTable;

MeasuredEnds ends_of(const RankContext& context, size_t most, const std::string& option) {
  const Result<Config> config = registry::read_settings();
  if (!config.ok()) throw PerfError(std::string(config.status().message()));
  const std::string own = config.value().host_id.empty() ? host_name() : config.value().host_id;
  MeasuredEnds hosts, all;
  const std::vector<std::string> names = context.board.exchange_texts(context.rank, own);
  for (int rank = 0; rank < context.ranks; ++rank) {
    const std::string& name = names[static_cast<size_t>(rank)];
    all.names.push_back(name + " rank " + std::to_string(rank));
    all.ranks.push_back(rank);
    if (std::find(hosts.names.begin(), hosts.names.end(), name) != hosts.names.end()) continue;
    hosts.names.push_back(name);
    hosts.ranks.push_back(rank);
  }
  hosts.are_hosts = hosts.names.size() > 1;
  MeasuredEnds ends = hosts.are_hosts ? hosts : all;
  if (ends.names.size() < 2) throw PerfError(option + " needs two ranks", kExitUsage);
  if (ends.names.size() > most) {
    throw PerfError(option + " is for at most " + std::to_string(most) + " hosts, or ranks " +
                    "of one; there are " + std::to_string(ends.names.size()));
  }
  return ends;
}

// Nanoseconds one way: of the best of several batches, the mean.
double PairMeasurement::run(size_t bytes, int batches, int round_trips) {
  round_trip(bytes);
  double best = 0;
  for (int batch = 0; batch < batches; ++batch) {
    const uint64_t start = monotonic_ns();
    for (int i = 0; i < round_trips; ++i) round_trip(bytes);
    const double one_way = static_cast<double>(monotonic_ns() - start) / (2.0 * round_trips);
    best = batch == 0 ? one_way : std::min(best, one_way);
  }
  return best;
}

void PairMeasurement::round_trip(size_t bytes) {
  if (leads_) send(bytes);
  communicator_.check(
      tuttiRecv(buffer_.data(), bytes, tuttiUint8, peer_, communicator_.comm(), tuttiBlocking()),
      "tuttiRecv");
  if (!leads_) send(bytes);
}

void PairMeasurement::send(size_t bytes) {
  communicator_.check(
      tuttiSend(buffer_.data(), bytes, tuttiUint8, peer_, communicator_.comm(), tuttiBlocking()),
      "tuttiSend");
}

LinkTable measure_all_pairs(const RankContext& context, const MeasuredEnds& ends) {
  const size_t count = ends.names.size();
  const Communicator communicator(context, CommunicatorOptions{});
  const auto found = std::find(ends.ranks.begin(), ends.ranks.end(), context.rank);
  const auto self = static_cast<uint32_t>(found - ends.ranks.begin());
  std::vector<double> own(2 * count);  // latencies, then rates
  for (uint32_t round = 0; round < topology::rounds_for(static_cast<uint32_t>(count)); ++round) {
    context.board.barrier();
    if (found == ends.ranks.end()) continue;
    const uint32_t other = topology::partner_of(self, round, static_cast<uint32_t>(count));
    if (other == self) continue;
    PairMeasurement pair(communicator, ends.ranks[other], self < other);
    own[other] = pair.latency_ns();
    own[count + other] = pair.bytes_per_ns();
  }
  const std::vector<std::vector<double>> samples = context.board.gather_samples(context.rank, own);
  LinkTable table{ends.names, {}, {}};
  for (size_t end = 0; end < count; ++end) {
    const std::vector<double>& row = samples[static_cast<size_t>(ends.ranks[end])];
    const auto half = row.begin() + static_cast<std::ptrdiff_t>(count);
    table.latency_ns.emplace_back(row.begin(), half);
    table.bytes_per_ns.emplace_back(half, row.end());
  }
  return table;
}

}  // namespace tutti::cli
