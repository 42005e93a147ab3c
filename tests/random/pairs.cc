#include "tests/random/pairs.h"

#include <algorithm>
#include <cstdio>

namespace tutti::random_calls {
namespace {

constexpr const char* kSendRecv = "send/recv";
constexpr const char* kOneProcess = "threads";

enum Place : size_t {
  kCollective,
  kType,
  kOp,
  kTransport,
  kRanks,
  kBuffers,
  kProcesses,
  kGrouped,
  kBlocking
};

std::vector<std::string> collectives() {
  std::vector<std::string> names = {kSendRecv};
  for (int i = 0; i < reference::kCollectives; ++i) {
    names.push_back(reference::name_of(static_cast<reference::Collective>(i)));
  }
  return names;
}

bool is_barrier(const std::string& name) {
  return name == reference::name_of(reference::Collective::kBarrier);
}

bool reduces(const std::string& name) {
  for (int i = 0; i < reference::kCollectives; ++i) {
    const auto collective = static_cast<reference::Collective>(i);
    if (name == reference::name_of(collective)) return reference::reduces(collective);
  }
  return false;
}

// What no call can have: an operation where nothing is reduced, two hosts in one process, ...
bool can_be(size_t a, const std::string& of_a, size_t b, const std::string& of_b) {
  const bool pairs = of_a == kSendRecv;
  if (a == kCollective && b == kType) return !is_barrier(of_a);
  if (a == kCollective && b == kBuffers) return !is_barrier(of_a) && !pairs;
  if (a == kCollective && b == kOp) return reduces(of_a);
  const bool one_host = a != kTransport || of_a == name_of(Network::kDefault);
  if (a == kTransport && b == kRanks) return one_host || of_b != "1";
  if (a == kTransport && b == kProcesses) {
    return of_a != name_of(Network::kMixed) || of_b != kOneProcess;
  }
  if (a == kRanks && b == kProcesses) return of_a != "1" || of_b == kOneProcess;
  return true;
}

std::vector<std::string> values_of(const Job& job, const Batch& batch, const Call& call) {
  const reference::Problem& p = call.problem;
  const bool no_buffers = !call.is_pairs && p.collective == reference::Collective::kBarrier;
  std::vector<std::string> values(kBlocking + 1);
  values[kCollective] = call.is_pairs ? kSendRecv : reference::name_of(p.collective);
  if (!no_buffers && !call.is_pairs) {
    values[kType] = reference::name_of(p.type);
    values[kBuffers] = call.in_place ? "in place" : "separate";
    if (reference::reduces(p.collective)) values[kOp] = reference::name_of(p.op);
  }
  values[kTransport] = name_of(job.network);
  values[kRanks] = std::to_string(job.ranks());
  values[kProcesses] = job.shape.process_count() == 1 ? kOneProcess : "processes";
  const bool grouped = batch.way == Way::kGroup || batch.way == Way::kHostGroup;
  const bool blocking = batch.way == Way::kBlocking || batch.way == Way::kGroup;
  values[kGrouped] = grouped ? "in a group" : "alone";
  values[kBlocking] = blocking ? "blocking" : "on a stream";
  return values;
}

std::string key_of(size_t a, const std::string& of_a, size_t b, const std::string& of_b) {
  return std::to_string(a) + of_a + '\n' + std::to_string(b) + of_b;
}

}  // namespace

std::vector<Axis> axes(int max_ranks) {
  std::vector<std::string> types, ops, ranks;
  for (int i = 0; i < reference::kTypes; ++i) {
    types.push_back(reference::name_of(static_cast<tuttiDataType_t>(i)));
  }
  for (int i = 0; i < reference::kOps; ++i) {
    ops.push_back(reference::name_of(static_cast<tuttiRedOp_t>(i)));
  }
  for (int i = 1; i <= max_ranks; ++i) ranks.push_back(std::to_string(i));
  return {
      {"collective", collectives()},
      {"type", types},
      {"operation", ops},
      {"transport", {name_of(Network::kDefault), name_of(Network::kTcp), name_of(Network::kMixed)}},
      {"ranks", ranks},
      {"buffers", {"separate", "in place"}},
      {"ranks are", {kOneProcess, "processes"}},
      {"issued", {"alone", "in a group"}},
      {"completes", {"blocking", "on a stream"}}};
}

void Pairs::add(const Job& job) {
  const auto note = [&](const std::vector<std::string>& values) {
    for (size_t a = 0; a < values.size(); ++a) {
      for (size_t b = a + 1; b < values.size(); ++b) {
        if (!values[a].empty() && !values[b].empty()) {
          seen_.insert(key_of(a, values[a], b, values[b]));
        }
      }
    }
  };
  for (const Batch& batch : job.batches) {
    for (const Call& call : batch.calls) {
      std::vector<std::string> values = values_of(job, batch, call);
      if (!call.is_pairs) note(values);
      for (const Transfer& transfer : call.transfers) {
        values[kType] = reference::name_of(transfer.type);
        note(values);
      }
    }
  }
}

Pairs::Tally Pairs::tally(size_t a, size_t b) const {
  Tally tally;
  for (const std::string& of_a : axes_[a].values) {
    for (const std::string& of_b : axes_[b].values) {
      if (!can_be(a, of_a, b, of_b)) continue;
      ++tally.possible;
      if (seen_.contains(key_of(a, of_a, b, of_b))) {
        ++tally.seen;
      } else {
        tally.missing.push_back(axes_[a].name + " " + of_a + " with " + axes_[b].name + " " + of_b);
      }
    }
  }
  return tally;
}

std::vector<std::string> Pairs::missing() const {
  std::vector<std::string> all;
  for (size_t a = 0; a < axes_.size(); ++a) {
    for (size_t b = a + 1; b < axes_.size(); ++b) {
      const Tally of_two = tally(a, b);
      all.insert(all.end(), of_two.missing.begin(), of_two.missing.end());
    }
  }
  return all;
}

std::string Pairs::table() const {
  std::string text = "pairs seen, of those that can be\n";
  char cell[64];
  for (size_t a = 0; a < axes_.size(); ++a) {
    std::snprintf(cell, sizeof cell, "  %-12s", axes_[a].name.c_str());
    text += cell;
    for (size_t b = 0; b < axes_.size(); ++b) {
      const Tally of_two = b > a ? tally(a, b) : Tally{};
      const std::string part =
          b > a ? std::to_string(of_two.seen) + "/" + std::to_string(of_two.possible) : "";
      std::snprintf(cell, sizeof cell, " %10s",
                    b == a ? axes_[a].name.substr(0, 10).c_str() : part.c_str());
      text += cell;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tutti::random_calls
