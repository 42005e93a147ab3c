#include "tools/cli/topo_measure.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "perf/collectives/communicator.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/launched.h"
#include "src/base/clock.h"
#include "src/base/host_name.h"
#include "src/comm/model_offers.h"
#include "src/registry/settings.h"
#include "src/select/model_file.h"
#include "src/topology/link_table.h"
#include "src/topology/rounds.h"
#include "src/topology/text_file.h"
#include "tutti/tutti.h"

namespace tutti::cli {
namespace {

using namespace tutti::perf;
using topology::LinkTable;

constexpr size_t kMostHosts = 16;
constexpr std::string_view kNetwork = "network";  // the level between hosts without a cluster file
constexpr size_t kShort = 8;                      // bytes
constexpr size_t kLong = size_t{4} << 20;

/// Those that measure, one rank for each host; or all, where there is one host.
struct Ends {
  std::vector<std::string> names;
  std::vector<int> ranks;
  bool are_hosts = false;
};

// Every rank's host, by the name that cluster files know it by.
Ends ends_of(const RankContext& context) {
  const Result<Config> config = registry::read_settings();
  if (!config.ok()) throw PerfError(std::string(config.status().message()));
  const std::string own = config.value().host_id.empty() ? host_name() : config.value().host_id;
  Board::Note note{};
  std::memcpy(note.data(), own.data(), std::min(own.size(), Board::kNoteBytes - 1));
  Ends hosts, all;
  const std::vector<Board::Note> notes = context.board.exchange_notes(context.rank, note);
  for (int rank = 0; rank < context.ranks; ++rank) {
    const std::string name(reinterpret_cast<const char*>(notes[static_cast<size_t>(rank)].data()));
    all.names.push_back(name + " rank " + std::to_string(rank));
    all.ranks.push_back(rank);
    if (std::find(hosts.names.begin(), hosts.names.end(), name) != hosts.names.end()) continue;
    hosts.names.push_back(name);
    hosts.ranks.push_back(rank);
  }
  hosts.are_hosts = hosts.names.size() > 1;
  Ends ends = hosts.are_hosts ? hosts : all;
  if (ends.names.size() < 2) throw PerfError("--measure needs two ranks", kExitUsage);
  if (ends.names.size() > kMostHosts) {
    throw PerfError("--measure is for at most " + std::to_string(kMostHosts) + " hosts, or ranks " +
                    "of one; there are " + std::to_string(ends.names.size()));
  }
  return ends;
}

class PairMeasurement {
 public:
  PairMeasurement(const Communicator& communicator, int peer, bool leads)
      : communicator_(communicator), peer_(peer), leads_(leads), buffer_(kLong) {}

  /// Nanoseconds one way: of the best of several batches, the mean.
  double run(size_t bytes, int batches, int round_trips) {
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

 private:
  void round_trip(size_t bytes) {
    if (leads_) send(bytes);
    communicator_.check(
        tuttiRecv(buffer_.data(), bytes, tuttiUint8, peer_, communicator_.comm(), tuttiBlocking()),
        "tuttiRecv");
    if (!leads_) send(bytes);
  }
  void send(size_t bytes) {
    communicator_.check(
        tuttiSend(buffer_.data(), bytes, tuttiUint8, peer_, communicator_.comm(), tuttiBlocking()),
        "tuttiSend");
  }

  const Communicator& communicator_;
  const int peer_;
  const bool leads_;
  std::vector<char> buffer_;
};

// In each round every end meets one other, all pairs at the same time.
LinkTable measure(const RankContext& context, const Ends& ends) {
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
    own[other] = pair.run(kShort, 5, 40);
    own[count + other] = static_cast<double>(kLong) / pair.run(kLong, 3, 2);
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

double median_of(const std::vector<std::vector<double>>& matrix) {
  std::vector<double> values;
  for (size_t row = 0; row < matrix.size(); ++row) {
    for (size_t column = 0; column < matrix.size(); ++column) {
      if (row != column) values.push_back(matrix[row][column]);
    }
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// For later communicators of these hosts.
void keep_model(const LinkTable& table) {
  const Result<Config> config = registry::read_settings();
  if (!config.ok() || config.value().cache_folder.empty()) return;
  select::ModelFile file{select::name_of_hosts(table.hosts), {}};
  file.model.levels = {{std::string(kNetwork), median_of(table.latency_ns),
                        1 / std::max(median_of(table.bytes_per_ns), 1e-6)}};
  const Status status = comm::ModelOffers::keep(config.value().cache_folder, file);
  if (!status.ok()) {
    std::fprintf(stderr, "tutti topo: the model is not kept: %s\n",
                 std::string(status.message()).c_str());
  }
}

void keep(const LinkTable& table, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const Status status = topology::write_text_file(path, topology::write_links(table));
  if (status.ok()) {
    std::printf("kept in %s\n", path.c_str());
  } else {
    std::fprintf(stderr, "tutti topo: the table is not kept: %s\n",
                 std::string(status.message()).c_str());
  }
}

// Prints the table that was kept of these ends, if it can be read.
bool show_kept(const Ends& ends, const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return false;
  const Result<std::string> text = topology::read_text_file(path);
  const Result<LinkTable> table =
      text.ok() ? topology::parse_links(text.value(), path) : Result<LinkTable>(text.status());
  std::string why;
  if (!table.ok()) {
    why = table.status().message();
  } else if (!std::is_permutation(table.value().hosts.begin(), table.value().hosts.end(),
                                  ends.names.begin(), ends.names.end())) {
    why = path + ": is of other hosts";
  }
  if (!why.empty()) {
    std::fprintf(stderr, "tutti topo: measured again, since the file is ignored: %s\n",
                 why.c_str());
    return false;
  }
  std::printf("%sfrom %s; --again measures again\n", topology::print_links(table.value()).c_str(),
              path.c_str());
  return true;
}

int measure_on_rank(const RankContext& context, bool again) {
  const Ends ends = ends_of(context);
  const std::string path = topology::links_path(ends.names, process_environment());
  const bool speaks = context.rank == 0;
  const bool kept = speaks && !again && show_kept(ends, path);
  if (context.board.exchange(context.rank, kept ? 1 : 0)[0] != 0) return 0;
  const LinkTable table = measure(context, ends);
  if (!speaks) return 0;
  std::fputs(topology::print_links(table).c_str(), stdout);
  keep(table, path);
  if (ends.are_hosts) keep_model(table);
  return 0;
}

}  // namespace

int measure_links(const MeasureOptions& options) {
  const std::optional<bootstrap::Launch> launch = this_launch();
  CrewShape shape;
  shape.processes = launch ? launch->ranks : options.ranks;
  return run_ranks(shape, launch, [&](const RankContext& context) {
    return measure_on_rank(context, options.again);
  });
}

}  // namespace tutti::cli
