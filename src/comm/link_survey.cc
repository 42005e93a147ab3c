#include "src/comm/link_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/base/clock.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kEnd = ~uint64_t{0};  // in the place of the bytes of the next message
constexpr size_t kFirstBytes = 8 << 10;
constexpr size_t kGrowth = 8;
constexpr int kMostRoundTrips = 40;

exec::Transfer transfer_of(int peer, bool is_send, void* data, uint64_t bytes) {
  return {static_cast<uint32_t>(peer), is_send, static_cast<std::byte*>(data), bytes};
}

/// The side of a pair that begins. A round trip is a message of so many bytes, a word that says how
/// many the next one has, and a word back; so the receiver has always made room.
class Leader {
 public:
  Leader(int peer, const LinkSurvey::Exchange& exchange) : peer_(peer), exchange_(exchange) {}

  /// Nanoseconds; `next`: bytes of the round trip after this one, or kEnd.
  Result<double> round_trip(uint64_t next) {
    uint64_t answer = 0;
    std::vector<exec::Transfer> group;
    buffer_.resize(std::max<size_t>(buffer_.size(), bytes_));
    if (bytes_ > 0) group.push_back(transfer_of(peer_, true, buffer_.data(), bytes_));
    group.push_back(transfer_of(peer_, true, &next, sizeof next));
    group.push_back(transfer_of(peer_, false, &answer, sizeof answer));
    bytes_ = next == kEnd ? 0 : next;
    const uint64_t start_ns = monotonic_ns();
    if (Status status = exchange_(group); !status.ok()) return status;
    const auto took_ns = static_cast<double>(monotonic_ns() - start_ns);
    if (answer != next) return Status::remote_error("the answer is not the one that was asked for");
    return took_ns;
  }

 private:
  const int peer_;
  const LinkSurvey::Exchange& exchange_;
  uint64_t bytes_ = 0;  // of the next round trip
  std::vector<std::byte> buffer_;
};

struct Rates {
  double latency_ns = 0, ns_per_byte = 0;
};

// The best of several counts, as whatever disturbs makes it slower. The latency may use a quarter
// of the time; then messages grow as long as the next one fits what is left of it.
Result<Rates> lead(int peer, const LinkSurvey::Exchange& exchange, uint64_t time_ns) {
  Leader leader(peer, exchange);
  const Result<double> met = leader.round_trip(0);  // they may have to connect
  if (!met.ok()) return met.status();
  const uint64_t start_ns = monotonic_ns();
  const auto used_ns = [&] { return static_cast<double>(monotonic_ns() - start_ns); };
  const auto all_ns = static_cast<double>(time_ns);
  double best = 0;
  for (int i = 0; i < kMostRoundTrips && (i == 0 || used_ns() + best < all_ns / 4); ++i) {
    const Result<double> took = leader.round_trip(0);
    if (!took.ok()) return took.status();
    best = i == 0 ? took.value() : std::min(best, took.value());
  }
  Rates rates{.latency_ns = best / 2};
  double last = best;
  for (size_t bytes = kFirstBytes; bytes <= LinkSurvey::kMostBytes; bytes *= kGrowth) {
    // The time that the last message took beyond a latency grows with the bytes. Another round trip
    // announces the message.
    const double expected = std::max(last, (last - best) * kGrowth + best);
    if (bytes > kFirstBytes && used_ns() + expected + best > all_ns) break;
    for (int i = 0; i < 2; ++i) {
      if (const Result<double> told = leader.round_trip(bytes); !told.ok()) return told.status();
      const Result<double> took = leader.round_trip(0);
      if (!took.ok()) return took.status();
      last = i == 0 ? took.value() : std::min(last, took.value());
      if (used_ns() + last + best > all_ns) break;
    }
    rates.ns_per_byte = std::max((last - best) / static_cast<double>(bytes), 1e-6);
  }
  if (const Result<double> ended = leader.round_trip(kEnd); !ended.ok()) return ended.status();
  return rates;
}

Status answer(int peer, const LinkSurvey::Exchange& exchange) {
  std::vector<std::byte> buffer;
  uint64_t next = 0;
  const exec::Transfer first = transfer_of(peer, false, &next, sizeof next);
  Status status = exchange({&first, 1});
  while (status.ok()) {
    if (next != kEnd && next > LinkSurvey::kMostBytes) {
      return Status::remote_error("a message of " + std::to_string(next) + " bytes was announced");
    }
    uint64_t echo = next;
    const uint64_t bytes = next == kEnd ? 0 : next;
    std::vector<exec::Transfer> group = {transfer_of(peer, true, &echo, sizeof echo)};
    buffer.resize(std::max<size_t>(buffer.size(), bytes));
    if (bytes > 0) group.push_back(transfer_of(peer, false, buffer.data(), bytes));
    if (next != kEnd) group.push_back(transfer_of(peer, false, &next, sizeof next));
    status = exchange(group);
    if (echo == kEnd) break;
  }
  return status;
}

// Whether the group says how long messages of the level take, or how fast the links are that carry
// them.
bool is_known(const group::GroupView& group, size_t level) {
  if (!group.level(level).reach.stream || group.level(level).latency_ns > 0) return true;
  if (level == 0) return false;
  const std::vector<double>& uplinks = group.level(level - 1).uplinks;
  return std::any_of(uplinks.begin(), uplinks.end(), [](double one) { return one > 0; });
}

double median_of(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

LinkSurvey::LinkSurvey(const group::GroupView& group, uint64_t time_ns) {
  for (size_t level = 0; level < group.levels(); ++level) {
    names_.push_back(group.level(level).name);
    if (!is_known(group, level)) add_level(group, level);
  }
  std::set<size_t> rounds;
  for (const Pair& pair : pairs_) rounds.insert(pair.level);
  round_ns_ = time_ns / std::max<size_t>(1, rounds.size());
}

// The first rank of each node inside meets that of the node half of them away, since neighbours may
// be on one machine. If there are many pairs, some that are spread over the level are taken.
void LinkSurvey::add_level(const group::GroupView& group, size_t level) {
  std::map<uint32_t, std::vector<int>> children;  // first ranks, by node
  if (level == 0) {
    for (int rank = 0; rank < group.ranks(); ++rank) {
      children[group.node_of(0, rank)].push_back(rank);
    }
  } else {
    for (const int rank : group.first_ranks(level - 1)) {
      children[group.node_of(level, rank)].push_back(rank);
    }
  }
  std::vector<Pair> all;
  for (const auto& [node, ranks] : children) {
    const size_t half = ranks.size() / 2;
    for (size_t i = 0; i < half; ++i) all.push_back({level, ranks[i], ranks[i + half]});
  }
  const size_t taken = std::min(all.size(), kMostPairs);
  for (size_t i = 0; i < taken; ++i) pairs_.push_back(all[i * all.size() / taken]);
}

Status LinkSurvey::measure(int rank, const Exchange& exchange, std::span<double> found) const {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    if (pair.answers == rank) {
      if (Status status = answer(pair.leads, exchange); !status.ok()) return status;
    }
    if (pair.leads != rank) continue;
    const Result<Rates> rates = lead(pair.answers, exchange, round_ns_);
    if (!rates.ok()) return rates.status();
    found[2 * i] = rates.value().latency_ns;
    found[2 * i + 1] = rates.value().ns_per_byte;
  }
  return {};
}

std::vector<select::LevelRates> LinkSurvey::rates(std::span<const double> found) const {
  std::map<size_t, std::pair<std::vector<double>, std::vector<double>>> by_level;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    auto& [latencies, rates] = by_level[pairs_[i].level];
    if (found[2 * i] > 0) latencies.push_back(found[2 * i]);
    if (found[2 * i + 1] > 0) rates.push_back(found[2 * i + 1]);
  }
  std::vector<select::LevelRates> levels;
  for (auto& [level, numbers] : by_level) {
    levels.push_back({names_[level], median_of(numbers.first), median_of(numbers.second)});
  }
  return levels;
}

std::string describe(std::span<const select::LevelRates> rates) {
  std::string text;
  for (const select::LevelRates& level : rates) {
    text += fmt::format("{}{} {:.1f} us, {:.3g} GB/s", text.empty() ? "" : "; ", level.name,
                        level.latency_ns / 1e3, 1 / std::max(level.ns_per_byte, 1e-6));
  }
  return text;
}

}  // namespace tutti::comm
