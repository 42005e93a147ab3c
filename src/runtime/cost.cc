#include "tutti/runtime/cost.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_link(const LinkClass& link) {
  require(link.latency >= Nanoseconds(0), "the latency ", link.latency.value, " ns is negative");
  require(std::isfinite(link.bytes_per_ns) && link.bytes_per_ns > 0, "the bandwidth ",
          link.bytes_per_ns, " bytes/ns must be positive and finite");
}

Nanoseconds transfer_time(const LinkClass& link, double bytes) {
  return Nanoseconds(checked_round(bytes / link.bytes_per_ns, "the time of a transfer in ns"));
}

void check_axis(std::span<const int64_t> axis, std::string_view name) {
  require(!axis.empty() && axis[0] > 0 && std::is_sorted(axis.begin(), axis.end()) &&
              std::adjacent_find(axis.begin(), axis.end()) == axis.end(),
          "the grid's ", name, " must be positive and ascending, at least one");
}

/// The cell below a coordinate and how far it lies in the cell, from 0 to 1.
std::pair<size_t, double> cell_of(std::span<const int64_t> axis, int64_t x) {
  if (axis.size() == 1 || x <= axis[0]) return {0, 0.0};
  const auto above = std::upper_bound(axis.begin(), axis.end() - 1, x);
  const size_t i = static_cast<size_t>(above - axis.begin()) - 1;
  return {i, static_cast<double>(x - axis[i]) / static_cast<double>(axis[i + 1] - axis[i])};
}

}  // namespace

Machine::Machine(std::vector<MachineLevel> levels, int ranks)
    : levels_(std::move(levels)), ranks_(ranks) {
  require(!levels_.empty(), "a machine needs at least one level");
  int64_t product = 1;
  for (const MachineLevel& level : levels_) {
    require(level.size >= 1, "a level has ", level.size, " places; give 1 or more");
    check_link(level.link);
    product = checked_product(product, level.size, "the product of the levels");
  }
  require(product == ranks, "the levels multiply to ", product, " and there are ", ranks,
          " ranks; change a level's size");
}

void Machine::check_group(const RankSet& group) const {
  for (const int rank : group.ranks()) {
    require(rank < ranks_, "rank ", rank, " is not in a machine of ", ranks_);
  }
}

int Machine::span_of(const RankSet& group) const {
  check_group(group);
  int64_t places = 1;
  for (int level = 0; level < std::ssize(levels_); ++level) {
    places *= levels_[at(level)].size;
    const auto same = [&](int rank) { return rank / places == group[0] / places; };
    if (std::all_of(group.ranks().begin(), group.ranks().end(), same)) return level;
  }
  return static_cast<int>(levels_.size()) - 1;
}

const LinkClass& Machine::link_of(const RankSet& group) const {
  return levels_[at(span_of(group))].link;
}

int Machine::places_touched(const RankSet& group, int level) const {
  require(level >= 0 && level < std::ssize(levels_), "there is no level ", level);
  check_group(group);
  int64_t places = 1;
  for (int l = 0; l <= level; ++l) places *= levels_[at(l)].size;
  std::set<int64_t> touched;
  for (const int rank : group.ranks()) touched.insert(rank / places);
  return static_cast<int>(touched.size());
}

Nanoseconds message_time(const LinkClass& link, Bytes bytes) {
  check_link(link);
  require(bytes >= Bytes(0), bytes.value, " bytes; give 0 or more");
  const Nanoseconds transfer = transfer_time(link, static_cast<double>(bytes.value));
  return Nanoseconds(checked_sum(link.latency.value, transfer.value, "the time of a message"));
}

Nanoseconds collective_time(const Machine& machine, const RankSet& group, TaskKind kind,
                            Bytes bytes) {
  require(communicates(kind), "computing and copying have no time of communication");
  const LinkClass& link = machine.link_of(group);
  if (kind == TaskKind::kSend || kind == TaskKind::kRecv) return message_time(link, bytes);
  require(bytes >= Bytes(0), bytes.value, " bytes; give 0 or more");
  const int64_t steps = group.size() - 1;
  const double share = static_cast<double>(bytes.value) * static_cast<double>(steps) / group.size();
  const std::string_view what = "the time of a collective";
  const int64_t once = checked_sum(checked_product(link.latency.value, steps, what),
                                   transfer_time(link, share).value, what);
  return Nanoseconds(kind == TaskKind::kAllReduce ? checked_product(once, 2, what) : once);
}

Nanoseconds predicted(tuttiComm_t comm, TaskKind kind, Bytes bytes) {
  require(communicates(kind) && kind != TaskKind::kSend && kind != TaskKind::kRecv,
          "only collectives are predicted here; use message_time()");
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  require(bytes > Bytes(0) && bytes.value % (4 * int64_t{ranks}) == 0, bytes.value,
          " bytes are not a positive multiple of ", ranks, " ranks * 4");
  // Nothing of the buffers is read: the group is simulated. They must be there all the same.
  std::vector<float> buffer(static_cast<size_t>(bytes.value) / 4), other(buffer.size());
  const size_t share = buffer.size() / static_cast<size_t>(ranks);
  expect_success(tuttiGroupStart(), nullptr, "tuttiGroupStart");
  const tuttiResult_t called =
      kind == TaskKind::kAllReduce ? tuttiAllReduce(buffer.data(), other.data(), buffer.size(),
                                                    tuttiFloat32, tuttiSum, comm, tuttiBlocking())
      : kind == TaskKind::kAllGather
          ? tuttiAllGather(buffer.data(), other.data(), share, tuttiFloat32, comm, tuttiBlocking())
      : kind == TaskKind::kAllToAll
          ? tuttiAllToAll(buffer.data(), other.data(), share, tuttiFloat32, comm, tuttiBlocking())
          : tuttiReduceScatter(buffer.data(), other.data(), share, tuttiFloat32, tuttiSum, comm,
                               tuttiBlocking());
  uint64_t nanoseconds = 0;
  const tuttiResult_t ended = tuttiGroupSimulateEnd(&nanoseconds);
  expect_success(called, comm, "the call to predict");
  expect_success(ended, comm, "tuttiGroupSimulateEnd");
  return Nanoseconds(static_cast<int64_t>(nanoseconds));
}

int64_t causal_work(int64_t queries, int64_t keys) {
  require(0 <= queries && queries <= keys, queries, " queries for ", keys,
          " keys; the queries are the last of the keys");
  const int64_t all = checked_product(queries, keys, "the causal work");
  // queries (queries - 1) / 2, of which the even factor is halved first.
  return all - (queries % 2 == 0 ? queries / 2 * (queries - 1) : (queries - 1) / 2 * queries);
}

WorkGrid::WorkGrid(std::vector<int64_t> queries, std::vector<int64_t> keys,
                   std::vector<Nanoseconds> times)
    : queries_(std::move(queries)), keys_(std::move(keys)), times_(std::move(times)) {
  check_axis(queries_, "queries");
  check_axis(keys_, "keys");
  require(times_.size() == queries_.size() * keys_.size(), times_.size(), " times for ",
          queries_.size(), " x ", keys_.size(), " points; give one a point");
  for (const Nanoseconds time : times_) {
    require(time >= Nanoseconds(0), "a time of the grid is negative");
  }
}

Nanoseconds WorkGrid::time(int64_t queries, int64_t keys) const {
  require(queries >= 0 && keys >= 0, "a size is negative");
  if (queries == 0 || keys == 0) return Nanoseconds(0);
  const int64_t q = std::min(queries, queries_.back()), k = std::min(keys, keys_.back());
  const auto [i, u] = cell_of(queries_, q);
  const auto [j, v] = cell_of(keys_, k);
  const size_t i1 = std::min(i + 1, queries_.size() - 1), j1 = std::min(j + 1, keys_.size() - 1);
  const auto point = [&](size_t a, size_t b) {
    return static_cast<double>(times_[a * keys_.size() + b].value);
  };
  const double inside = (1 - u) * ((1 - v) * point(i, j) + v * point(i, j1)) +
                        u * ((1 - v) * point(i1, j) + v * point(i1, j1));
  const double beyond = static_cast<double>(queries) /
                        static_cast<double>(std::max<int64_t>(1, q)) *
                        (static_cast<double>(keys) / static_cast<double>(std::max<int64_t>(1, k)));
  return Nanoseconds(checked_round(inside * beyond, "a time beyond the grid in ns"));
}

}  // namespace tutti::runtime
