#include "tests/random/pairs.h"

#include <algorithm>
#include <cstdio>

namespace tutti::random_calls {
namespace {

constexpr const char* kOneProcess = "threads";
constexpr const char* kHandle = "with a handle";
constexpr const char* kRegistered = "registered";
constexpr const char* kNoOther = "1";  // communicator
constexpr const char* kSeveral = "several communicators";

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
  kPriority,
  kDeadline,
  kMemory,
  kOrigin,
  kAlive,
  kBatchOf,
  kMode,
  kEnding,
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

bool can_have(const Call& call, size_t place) {
  const bool collective = call.kind == Kind::kCollective;
  const bool data = collective && call.problem.collective != reference::Collective::kBarrier;
  switch (place) {
    case kType:
      return data || call.kind == Kind::kPairs;
    case kOp:
      return collective && reference::reduces(call.problem.collective);
    case kBuffers:
      return data;
    case kMemory:
      return data || !collective;
    case kCalled:
    case kPriority:
    case kDeadline:
      return call.kind != Kind::kOneSided;
    default:
      return true;
  }
}

Call example_of(const std::string& name) {
  const std::vector<Example> all = examples();
  return std::ranges::find(all, name, &Example::name)->call;
}

bool can_reduce(const std::string& type, const std::string& op) {
  int of_type = 0;
  while (reference::name_of(static_cast<tuttiDataType_t>(of_type)) != type) ++of_type;
  const auto element = static_cast<tuttiDataType_t>(of_type);
  for (int i = 0; i < reference::kOps; ++i) {
    const auto named = static_cast<tuttiRedOp_t>(i);
    if (reference::name_of(named) == op) return reference::can_reduce(element, named);
  }
  return reference::can_scale(element);
}

// Whether a call can have both features: not, for example, an operation where nothing is reduced,
// or two hosts in one process.
bool can_be(size_t a, const std::string& of_a, size_t b, const std::string& of_b, int max_ranks) {
  if (a == kCollective) {
    const Call call = example_of(of_a);
    if (b == kCalled && of_b != kHandle) return true;
    if (call.kind == Kind::kOneSided && of_b == kRegistered) return false;
    return can_have(call, b);
  }
  if (a == kType && b == kOp) return can_reduce(of_a, of_b);
  const std::string all = name_of(Origin::kAll);
  const bool two_hosts = a == kTransport && of_a == name_of(Network::kMixed);
  if (two_hosts && b == kProcesses) return of_b != kOneProcess;
  if (two_hosts && b == kOrigin) return of_b != all;
  if (a == kProcesses && b == kOrigin) return of_a == kOneProcess || of_b != all;
  if (a == kRanks && b == kOrigin) {
    if (of_b == name_of(Origin::kGrow)) return of_a != "1";
    return of_b != name_of(Origin::kShrink) || of_a != std::to_string(max_ranks);
  }
  if (a == kOrigin && b == kMode) return of_a != all || of_b == name_of(Mode::kUnsaid);
  if (a == kOrigin && b == kAlive) return of_b != kNoOther || of_a == name_of(Origin::kId);
  if (a == kAlive && b == kBatchOf) return of_a != kNoOther || of_b != kSeveral;
  return true;
}

const char* priority_name(int priority) {
  return priority == 0 ? "usual" : priority > 0 ? "high" : "low";
}

std::string alive_name(size_t communicators) {
  return communicators < 4 ? std::to_string(communicators) : "4 or more";
}

const char* memory_name(const Job& job, const Call& call) {
  const Communicator& communicator = job.of(call);
  const bool one_sided = call.kind == Kind::kOneSided;
  const bool ordinary = one_sided ? communicator.ordinary_windows : !call.allocated;
  if (ordinary) return "ordinary";
  return !one_sided && communicator.registered ? kRegistered : "allocated";
}

// `alive`: so many communicators there are.
std::vector<std::string> values_of(const Job& job, const Batch& batch, const Call& call,
                                   size_t alive) {
  const reference::Problem& p = call.problem;
  std::vector<std::string> values(kPlaces);
  values[kCollective] = name_of(call);
  if (can_have(call, kType)) values[kType] = reference::name_of(p.type);
  if (can_have(call, kBuffers)) values[kBuffers] = call.in_place ? "in place" : "separate";
  if (can_have(call, kOp)) values[kOp] = op_name(call);
  values[kTransport] = name_of(job.network);
  values[kRanks] = std::to_string(job.of(call).ranks());
  values[kProcesses] = job.shape.process_count() == 1 ? kOneProcess : "processes";
  const bool blocking = batch.way == Way::kBlocking || batch.way == Way::kGroup;
  values[kGrouped] = batch.grouped() ? "in a group" : "alone";
  values[kBlocking] = blocking ? "blocking" : "on a stream";
  const bool handle = batch.handles && can_have(call, kCalled);
  values[kCalled] = handle ? kHandle : "as a function";
  if (can_have(call, kPriority)) values[kPriority] = priority_name(call.options.priority);
  if (can_have(call, kDeadline)) values[kDeadline] = call.options.deadline ? "some" : "none";
  if (can_have(call, kMemory)) values[kMemory] = memory_name(job, call);
  values[kOrigin] = name_of(job.of(call).origin);
  values[kAlive] = alive_name(alive);
  values[kBatchOf] = batch.of_several() ? kSeveral : "one communicator";
  values[kMode] = name_of(job.of(call).mode);
  values[kEnding] = name_of(job.of(call).ending);
  return values;
}

}  // namespace

std::vector<Axis> axes(int max_ranks) {
  std::vector<std::string> names, types, ops, ranks, origins, modes, endings;
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
  for (int i = 0; i < kOrigins; ++i) origins.emplace_back(name_of(static_cast<Origin>(i)));
  for (int i = 0; i < kModes; ++i) modes.emplace_back(name_of(static_cast<Mode>(i)));
  for (int i = 0; i < kEndings; ++i) endings.emplace_back(name_of(static_cast<Ending>(i)));
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
      {"called", {"as a function", kHandle}},
      {"priority", {"low", "usual", "high"}},
      {"deadline", {"none", "some"}},
      {"memory", {"ordinary", "allocated", kRegistered}},
      {"made by", origins},
      {"there are", {kNoOther, "2", "3", "4 or more"}},
      {"batch of", {"one communicator", kSeveral}},
      {"made", modes},
      {"ended by", endings}};
}

Pairs::Pairs(int max_ranks) : max_ranks_(max_ranks), axes_(axes(max_ranks)) {
  for (const Axis& axis : axes_) values_ += axis.values.size();
  seen_.resize(values_ * values_);
}

size_t Pairs::number_of(size_t axis, const std::string& value) const {
  size_t before = 0;
  for (size_t i = 0; i < axis; ++i) before += axes_[i].values.size();
  const std::vector<std::string>& values = axes_[axis].values;
  return before + static_cast<size_t>(std::ranges::find(values, value) - values.begin());
}

void Pairs::note(const std::vector<std::string>& values) {
  std::vector<size_t> numbers;
  for (size_t axis = 0; axis < values.size(); ++axis) {
    if (!values[axis].empty()) numbers.push_back(number_of(axis, values[axis]));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t k = i + 1; k < numbers.size(); ++k) seen_[numbers[i] * values_ + numbers[k]] = true;
  }
}

void Pairs::add(const Job& job) {
  size_t alive = 1;
  for (const Batch& batch : job.batches) {
    for (const Change& change : batch.changes) {
      alive = change.made.empty() ? alive - 1 : alive + change.made.size();
    }
    for (const Call& call : batch.calls) {
      std::vector<std::string> values = values_of(job, batch, call, alive);
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
      if (!can_be(a, of_a, b, of_b, max_ranks_)) continue;
      ++tally.possible;
      if (seen_[number_of(a, of_a) * values_ + number_of(b, of_b)]) {
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
    std::snprintf(cell, sizeof cell, "  %-10s", axes_[a].name.c_str());
    text += cell;
    for (size_t b = 0; b < axes_.size(); ++b) {
      const Tally of_two = b > a ? tally(a, b) : Tally{};
      const std::string part =
          b > a ? std::to_string(of_two.seen) + "/" + std::to_string(of_two.possible) : "";
      std::snprintf(cell, sizeof cell, " %8s",
                    b == a ? axes_[a].name.substr(0, 8).c_str() : part.c_str());
      text += cell;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tutti::random_calls
