#include "tutti/runtime/nano.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

struct BatchRange {
  int64_t begin = 0, end = 0;
  bool intersects(const BatchRange& other) const { return begin < other.end && other.begin < end; }
};

std::vector<BatchRange> ranges_of(const NanoOperation& operation, const NanoSpec& spec) {
  std::vector<BatchRange> ranges;
  int64_t begin = 0;
  const auto add = [&](int64_t end) {
    require(end > begin && end <= spec.tokens, "operation '", operation.name, "' is cut at ", end,
            " behind ", begin, " of ", spec.tokens, " tokens; cuts ascend within the batch");
    ranges.push_back({begin, end});
    begin = end;
  };
  for (const int64_t cut : operation.cuts) {
    require(cut % spec.grain == 0, "operation '", operation.name, "' is cut at ", cut,
            ", no multiple of the grain ", spec.grain);
    add(cut);
  }
  add(spec.tokens);
  return ranges;
}

/// The ranges of an operation take its whole time together, to the nanosecond.
Nanoseconds share_of(Nanoseconds whole, const BatchRange& range, int64_t tokens) {
  const auto until = [&](int64_t token) {
    return static_cast<int64_t>(static_cast<__int128>(whole.value) * token / tokens);
  };
  return Nanoseconds(until(range.end) - until(range.begin));
}

void check_spec(const NanoSpec& spec) {
  check_ranks(spec.ranks);
  require(spec.tokens >= 1 && spec.grain >= 1, spec.tokens, " tokens with grain ", spec.grain,
          " cannot be");
  require(!spec.operations.empty(), "there are no operations; give at least one");
  require(spec.overhead >= Nanoseconds(0), "the overhead of a range is negative");
  int64_t parts = 0;
  for (const NanoOperation& operation : spec.operations) {
    parts += 1 + std::ssize(operation.cuts);
  }
  check_parts(checked_product(parts, spec.ranks, "the tasks of all ranks"), "tasks");
  for (size_t o = 0; o < spec.operations.size(); ++o) {
    require(spec.operations[o].duration >= Nanoseconds(0), "operation '", spec.operations[o].name,
            "' takes negative time");
    for (const int before : spec.operations[o].after) {
      require(before >= 0 && at(before) < o, "operation '", spec.operations[o].name,
              "' is after operation ", before, "; name earlier ones");
    }
  }
}

void add_rank(TimelineBuilder& builder, const NanoSpec& spec, int rank, int channel) {
  struct RangePart {
    BatchRange range;
    int task = 0;
    int buffer = 0;
  };
  std::vector<std::vector<RangePart>> parts;
  int messages = 0;
  for (size_t o = 0; o < spec.operations.size(); ++o) {
    const NanoOperation& operation = spec.operations[o];
    parts.emplace_back();
    for (const BatchRange& range : ranges_of(operation, spec)) {
      const int64_t length = range.end - range.begin;
      TimelineTask task;
      task.rank = rank;
      task.name = operation.name + "." + std::to_string(parts.back().size());
      task.duration = share_of(operation.duration, range, spec.tokens) + spec.overhead;
      const int buffer = builder.buffer();
      task.writes = {buffer};
      for (const int before : operation.after) {
        for (const RangePart& part : parts[at(before)]) {
          if (!part.range.intersects(range)) continue;
          task.after.push_back(part.task);
          task.reads.push_back(part.buffer);
        }
      }
      if (operation.communicates) {
        task.kind = TaskKind::kAllReduce;
        task.track = Track::kCommHigh;
        task.channel = channel;
        task.tag = messages++;
        task.bytes = Bytes(checked_product(spec.token_bytes.value, length, "a range in bytes"));
      }
      task.item = builder.timeline().items++;
      parts.back().push_back({range, builder.add(std::move(task)), buffer});
    }
  }
}

}  // namespace

Timeline nano_batches(const NanoSpec& spec) {
  check_spec(spec);
  TimelineBuilder builder(spec.ranks);
  const int channel = builder.channel(RankSet::range(0, spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) add_rank(builder, spec, rank, channel);
  return builder.take();
}

NanoSpec layered(int layers, Nanoseconds computing, Nanoseconds communication, int parts) {
  require(layers >= 1 && parts >= 1, layers, " layers in ", parts,
          " parts; give 1 or more of each");
  check_parts(int64_t{layers} * 2 * parts, "ranges");
  NanoSpec spec;
  spec.tokens = int64_t{parts} * spec.grain;
  for (int l = 0; l < 2 * layers; ++l) {
    NanoOperation operation;
    operation.communicates = l % 2 == 1;
    operation.name = (operation.communicates ? "N" : "C") + std::to_string(l / 2);
    operation.duration = operation.communicates ? communication : computing;
    for (int p = 1; p < parts; ++p) operation.cuts.push_back(p * spec.grain);
    if (l > 0) operation.after = {l - 1};
    spec.operations.push_back(std::move(operation));
  }
  return spec;
}

Admission admit(std::span<const SharePoint> table, Nanoseconds computing, Nanoseconds communication,
                double budget) {
  require(!table.empty(), "the table is empty; give at least one point");
  require(budget > 0 && budget <= 1, "the budget ", budget, " is outside of (0, 1]");
  require(computing >= Nanoseconds(0) && communication >= Nanoseconds(0), "a time is negative");
  std::optional<Admission> best;
  for (size_t i = 0; i < table.size(); ++i) {
    const SharePoint& point = table[i];
    require(point.share > 0 && point.share < 1 && point.performance > 0 && point.performance <= 1 &&
                (i == 0 || (point.share > table[i - 1].share &&
                            point.performance >= table[i - 1].performance)),
            "the point (", point.share, ", ", point.performance,
            ") of the table does not rise within (0, 1); sort it");
    if (point.share >= budget) continue;
    const double with = std::max(static_cast<double>(computing.value) / (budget - point.share),
                                 static_cast<double>(communication.value) / point.performance);
    const Nanoseconds time(checked_round(with, "the time beside communication in ns"));
    if (!best || time < best->time) best = Admission{point.share, time};
  }
  if (!best) infeasible("no share of the table leaves computing anything of the budget ", budget);
  return *best;
}

int blocks_of(double share, int multiprocessors) {
  require(share > 0 && share <= 1, "the share ", share, " is outside of (0, 1]");
  require(multiprocessors >= 1, multiprocessors, " multiprocessors; give 1 or more");
  // A share such as 0.3 of 10 is three blocks, although 0.3 is a little less.
  return std::max(1, static_cast<int>(share * multiprocessors + 1e-9));
}

void expect_within(std::span<const double> shares, double budget) {
  double sum = 0;
  for (const double share : shares) {
    require(std::isfinite(share) && share >= 0, "a share is ", share, "; give 0 or more");
    sum += share;
  }
  require(sum <= budget + 1e-12, "shares sum to ", sum, ", more than ", budget,
          "; admit fewer operations at a time");
}

Timeline example_nano(int ranks) {
  NanoSpec spec = layered(3, Nanoseconds(400'000), Nanoseconds(200'000), 2);
  spec.ranks = ranks;
  spec.token_bytes = Bytes(32);
  return nano_batches(spec);
}

}  // namespace tutti::runtime
