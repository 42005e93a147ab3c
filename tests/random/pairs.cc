#include "tests/random/pairs.h"

#include <algorithm>
#include <cstdio>

namespace tutti::random_calls {
namespace {

constexpr const char* kOneProcess = "threads";
constexpr const char* kHandle = "with a handle";

enum Place : size_t {
  kCollective,
  kType,
  kOp,
  kTransport,
  kRanks,
  kBuffers,
  kProcesses,
  kGrouped,
  kBlocking,
  kCalled,
  kPlaces
};

// One call of each name; of a get, its access.
struct Example {
  Call call;
  Access access;
  const char* name() const { return name_of(call, &access); }
};

std::vector<Example> examples() {
  std::vector<Example> all;
  for (int i = 0; i < reference::kCollectives; ++i) {
    all.push_back({});
    all.back().call.problem.collective = static_cast<reference::Collective>(i);
  }
  all.push_back({});
  all.back().call.kind = Kind::kPairs;
  for (const Arrival arrival : {Arrival::kPutSignal, Arrival::kSignal, Arrival::kFlush}) {
    all.push_back({});
    all.back().call.kind = Kind::kOneSided;
    all.back().call.arrival = arrival;
  }
  all.push_back(all.back());
  all.back().access.is_get = true;
  return all;
}

bool can_have(const std::string& name, size_t place) {
  const auto calls = examples();
  const Call& call = std::ranges::find(calls, name, &Example::name)->call;
  const bool collective = call.kind == Kind::kCollective;
  const bool data = collective && call.problem.collective != reference::Collective::kBarrier;
  if (place == kType) return data || call.kind == Kind::kPairs;
  if (place == kBuffers) return data;
  if (place == kCalled) return call.kind != Kind::kOneSided;
  return place != kOp || (collective && reference::reduces(call.problem.collective));
}

// What no call can have: an operation where nothing is reduced, two hosts in one process, ...
bool can_be(size_t a, const std::string& of_a, size_t b, const std::string& of_b) {
  if (a == kCollective && !(b == kCalled && of_b != kHandle) && !can_have(of_a, b)) return false;
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
  std::vector<std::string> values(kPlaces);
  values[kCollective] = name_of(call);
  if (can_have(values[kCollective], kType)) values[kType] = reference::name_of(p.type);
  if (can_have(values[kCollective], kBuffers)) {
    values[kBuffers] = call.in_place ? "in place" : "separate";
  }
  if (can_have(values[kCollective], kOp)) values[kOp] = op_name(call);
  values[kTransport] = name_of(job.network);
  values[kRanks] = std::to_string(job.ranks());
  values[kProcesses] = job.shape.process_count() == 1 ? kOneProcess : "processes";
  const bool blocking = batch.way == Way::kBlocking || batch.way == Way::kGroup;
  values[kGrouped] = batch.grouped() ? "in a group" : "alone";
  values[kBlocking] = blocking ? "blocking" : "on a stream";
  const bool handle = batch.handles && can_have(values[kCollective], kCalled);
  values[kCalled] = handle ? kHandle : "as a function";
  return values;
}

std::string key_of(size_t a, const std::string& of_a, size_t b, const std::string& of_b) {
  return std::to_string(a) + of_a + '\n' + std::to_string(b) + of_b;
}

}  // namespace

std::vector<Axis> axes(int max_ranks) {
  std::vector<std::string> names, types, ops, ranks;
  for (const Example& example : examples()) names.emplace_back(example.name());
  for (int i = 0; i < reference::kTypes; ++i) {
    types.push_back(reference::name_of(static_cast<tuttiDataType_t>(i)));
  }
  for (int i = 0; i < reference::kOps; ++i) {
    ops.push_back(reference::name_of(static_cast<tuttiRedOp_t>(i)));
  }
  for (const Scalar scalar : {Scalar::kImmediate, Scalar::kDevice}) {
    Call call;
    call.scalar = scalar;
    ops.push_back(op_name(call));
  }
  for (int i = 1; i <= max_ranks; ++i) ranks.push_back(std::to_string(i));
  return {
      {"collective", names},
      {"type", types},
      {"operation", ops},
      {"transport", {name_of(Network::kDefault), name_of(Network::kTcp), name_of(Network::kMixed)}},
      {"ranks", ranks},
      {"buffers", {"separate", "in place"}},
      {"ranks are", {kOneProcess, "processes"}},
      {"issued", {"alone", "in a group"}},
      {"completes", {"blocking", "on a stream"}},
      {"called", {"as a function", kHandle}}};
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
      if (call.kind == Kind::kCollective) note(values);
      for (const Access& access : call.accesses) {
        values[kCollective] = name_of(call, &access);
        note(values);
      }
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
