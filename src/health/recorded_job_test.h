// Recorders of a job that never ran, for tests: steps of collectives and transfers with 20 % of
// jitter from a seed, one planted fault, and the bytes that the recorders' files would have.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "src/base/prng.h"
#include "src/health/analysis.h"
#include "src/trace/format.h"

namespace tutti::health::tests {

enum class Fault {
  kNone,
  kMismatch,
  kMissing,
  kComputingHang,
  kCommunicationHang,
  kComputingSlow,
  kSender,
  kReceiver,
  kRank,
  kPath
};

struct RecordedJob {
  int ranks = 4;
  int steps = 20;
  Fault fault = Fault::kNone;
  int rank = 0;  // to blame
  int peer = 1;  // of a path
  double times = 4;
};

class JobRecorders {
 public:
  JobRecorders(const RecordedJob& job, uint64_t seed) : job_(job), random_(seed) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      trace::Snapshot snapshot;
      snapshot.communicator = 0xabc;
      snapshot.rank = rank;
      snapshot.ranks = job.ranks;
      snapshot.host = "host" + std::to_string(rank / 8);
      snapshots_.push_back(std::move(snapshot));
      // Clocks of ranks have nothing in common.
      now_.push_back(1e9 + 1e12 * random_.unit());
    }
    for (int step = 0; step < job.steps; ++step) add_step(step);
  }

  std::vector<RankRecorder> recorders() const {
    std::vector<RankRecorder> all;
    for (const trace::Snapshot& snapshot : snapshots_) {
      const auto rank = static_cast<size_t>(snapshot.rank);
      if (job_.fault == Fault::kMissing && snapshot.rank == job_.rank) continue;
      all.push_back({snapshot, static_cast<uint64_t>(now_[rank]) + 60'000'000'000});
    }
    return all;
  }

 private:
  static constexpr double kComputing = 10e6, kCollective = 2e6, kTransfer = 1e6;

  double jitter() { return 0.8 + 0.4 * random_.unit(); }
  bool is_to_blame(int rank) const { return rank == job_.rank; }
  trace::CallRecord& add(int rank, const char* name, trace::Series series) {
    std::vector<trace::CallRecord>& calls = snapshots_[static_cast<size_t>(rank)].calls;
    trace::CallRecord call;
    call.order = calls.size() + 1;
    call.series = series;
    call.state = trace::RecordState::kDone;
    call.collective = name;
    call.type = "float";
    call.bytes = 1 << 20;
    calls.push_back(call);
    return calls.back();
  }

  void add_step(int step) {
    const bool last = step + 1 == job_.steps;
    // When each comes to the call, by a clock that is common for the moment.
    std::vector<double> comes;
    double latest = 0;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const bool slow = job_.fault == Fault::kComputingSlow && is_to_blame(rank);
      comes.push_back(kComputing * jitter() * (slow ? job_.times : 1));
      latest = std::max(latest, comes.back());
    }
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const double wait = latest - comes[static_cast<size_t>(rank)];
      double& now = now_[static_cast<size_t>(rank)];
      now += comes[static_cast<size_t>(rank)];
      if (last && job_.fault == Fault::kComputingHang && is_to_blame(rank)) continue;
      trace::CallRecord& call = add(rank, "all_reduce", trace::Series::kCollective);
      call.op = "sum";
      call.number = static_cast<uint32_t>(step) + 1;
      call.start_ns = static_cast<uint64_t>(now);
      if (last && spoil(call, rank)) continue;
      now += wait + kCollective * jitter();
      call.end_ns = static_cast<uint64_t>(now);
    }
    if (!last) add_transfers(step);
  }

  // The last call of a job that hangs or differs.
  bool spoil(trace::CallRecord& call, int rank) {
    if (job_.fault == Fault::kMismatch && is_to_blame(rank)) call.bytes /= 2;
    const bool hangs = job_.fault == Fault::kComputingHang || job_.fault == Fault::kMissing ||
                       job_.fault == Fault::kMismatch || job_.fault == Fault::kCommunicationHang;
    if (!hangs) return false;
    call.state = trace::RecordState::kRunning;
    const bool path = job_.fault == Fault::kCommunicationHang;
    call.waits_for = path && rank == job_.peer ? job_.rank
                     : is_to_blame(rank)       ? job_.peer
                                               : (path ? job_.peer : job_.rank);
    call.wait_ns = call.start_ns + 1'000'000;
    for (int peer = 0; path && peer < job_.ranks; ++peer) {
      if (peer == rank) continue;
      trace::ExchangeRecord exchange;
      exchange.peer = static_cast<uint32_t>(peer);
      exchange.bytes = 1 << 20;
      exchange.messages = 16;
      exchange.complete = is_to_blame(peer) && rank == job_.peer ? 2 : 9;
      exchange.moved = exchange.bytes / 16 * exchange.complete;
      call.exchanges.push_back(exchange);
    }
    return true;
  }

  double times_of(int source, int target) const {
    const bool from = is_to_blame(source), to = is_to_blame(target);
    const bool slow = (job_.fault == Fault::kSender && from) ||
                      (job_.fault == Fault::kReceiver && to) ||
                      (job_.fault == Fault::kRank && (from || to)) ||
                      (job_.fault == Fault::kPath && from && target == job_.peer);
    return slow ? job_.times : 1;
  }

  // Every rank receives from every other one.
  void add_transfers(int step) {
    constexpr int kFew = 8;  // steps; more are more of the same
    if (step >= kFew) return;
    for (int target = 0; target < job_.ranks; ++target) {
      for (int source = 0; source < job_.ranks; ++source) {
        if (source == target) continue;
        trace::CallRecord& call = add(target, "recv", trace::Series::kTransfers);
        call.number = static_cast<uint32_t>(step * job_.ranks + source) + 1;
        double& now = now_[static_cast<size_t>(target)];
        call.start_ns = static_cast<uint64_t>(now);
        now += kTransfer * jitter() * times_of(source, target);
        call.end_ns = static_cast<uint64_t>(now);
        trace::ExchangeRecord exchange;
        exchange.peer = static_cast<uint32_t>(source);
        exchange.bytes = 1 << 20;
        exchange.messages = exchange.complete = 1;
        exchange.moved = exchange.bytes;
        call.exchanges.push_back(exchange);
      }
    }
  }

  const RecordedJob job_;
  Prng random_;
  std::vector<trace::Snapshot> snapshots_;
  std::vector<double> now_;
};

/// The file that a recorder with these calls would have; its rings are large enough for all.
class RecorderBytes {
 public:
  explicit RecorderBytes(const trace::Snapshot& snapshot) {
    uint64_t records = 1, lines = 1, wanted = 0;
    while (records <= snapshot.calls.size()) records *= 2;
    for (const trace::CallRecord& call : snapshot.calls) wanted += call.exchanges.size();
    while (lines < wanted && lines < trace::kMostLines) lines *= 2;
    bytes_.assign(trace::file_bytes(records, lines), '\0');
    trace::Header& header = *reinterpret_cast<trace::Header*>(bytes_.data());
    header.magic = trace::kMagic;
    header.version = trace::kVersion;
    header.record_bytes = sizeof(trace::Record);
    header.line_bytes = sizeof(trace::Line);
    header.records = records;
    header.lines = lines;
    header.communicator = snapshot.communicator;
    header.rank = snapshot.rank;
    header.ranks = snapshot.ranks;
    std::memcpy(header.host, snapshot.host.data(), snapshot.host.size());
    for (const trace::CallRecord& call : snapshot.calls) write(call, records, lines);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  uint64_t name(const std::string& text) {
    if (text.empty()) return 0;
    const auto [found, is_new] = names_.emplace(text, names_.size() + 1);
    const size_t at = trace::kNamesAt + found->second * trace::kNameBytes;
    if (is_new) std::memcpy(bytes_.data() + at, text.data(), text.size());
    return found->second;
  }

  void write(const trace::CallRecord& call, uint64_t records, uint64_t lines) {
    auto* const all = reinterpret_cast<trace::Record*>(bytes_.data() + trace::kRecordsAt);
    trace::Record& record = all[call.order % records];
    record.order = call.order;
    record.what = name(call.collective) | name(call.type) << 8 | name(call.op) << 16 |
                  uint64_t{static_cast<uint32_t>(call.root)} << 32;
    record.bytes = call.bytes;
    record.start_ns = call.start_ns;
    record.end_ns = call.end_ns;
    uint64_t progress = uint64_t{call.number} << 32 |
                        static_cast<uint64_t>(call.series) << trace::kSeriesAt |
                        static_cast<uint64_t>(call.state) | trace::kHasStart;
    if (call.end_ns != 0) progress |= trace::kHasEnd;
    if (call.waits_for >= 0) {
      progress |= trace::kHasWait;
      record.wait =
          static_cast<uint64_t>(call.waits_for) << 44 | (call.wait_ns - call.start_ns) / 1'000'000;
    }
    if (!call.exchanges.empty()) {
      progress |= trace::kHasLines;
      record.lines = (next_ % lines) << 32 | call.exchanges.size() << 16;
    }
    for (const trace::ExchangeRecord& exchange : call.exchanges) write(exchange, call.order, lines);
    record.progress = progress;
  }

  void write(const trace::ExchangeRecord& exchange, uint64_t order, uint64_t lines) {
    const uint64_t records = reinterpret_cast<trace::Header*>(bytes_.data())->records;
    auto* const all = reinterpret_cast<trace::Line*>(bytes_.data() + trace::lines_at(records));
    trace::Line& line = all[next_++ % lines];
    line.order = trace::line_order(order) | 1;
    line.what = uint64_t{exchange.peer} << 32 | (exchange.sends ? trace::kLineSends : 0);
    line.bytes = exchange.bytes;
    line.moved = exchange.moved;
    line.messages = uint64_t{exchange.complete} << 32 | exchange.messages;
  }

  std::string bytes_;
  std::map<std::string, uint64_t> names_;
  uint64_t next_ = 0;
};

}  // namespace tutti::health::tests
