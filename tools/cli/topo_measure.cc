#include "tools/cli/topo_measure.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/launched.h"
#include "src/comm/model_offers.h"
#include "src/registry/settings.h"
#include "src/select/model_file.h"
#include "src/topology/text_file.h"
#include "tools/cli/pair_measurement.h"
#include "tools/topology/link_table.h"

namespace tutti::cli {
namespace {

using namespace tutti::perf;
using topology::LinkTable;

constexpr size_t kMostHosts = 16;
constexpr std::string_view kNetwork = "network";  // the level between hosts without a cluster file

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
bool show_kept(const MeasuredEnds& ends, const std::string& path) {
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
  const MeasuredEnds ends = ends_of(context, kMostHosts, "--measure");
  const std::string path = topology::links_path(ends.names, process_environment());
  const bool speaks = context.rank == 0;
  const bool kept = speaks && !again && show_kept(ends, path);
  if (context.board.exchange(context.rank, kept ? 1 : 0)[0] != 0) return 0;
  const LinkTable table = measure_all_pairs(context, ends);
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
