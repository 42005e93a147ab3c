#include "src/schedule/verify_hazards.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/schedule/text.h"

namespace tutti::schedule::verifier {
namespace {

constexpr uint64_t kMaxEntries = 1u
                                 << 26;  // of clocks at a time; more ranks are looked at in turns
constexpr uint64_t kMaxHazardWork = 1ull << 33;

struct BlockAccess {
  Block block;
  bool write;
};

template <class Visit>
void for_each_access(const Program& program, StepRef ref, Visit visit) {
  const Schedule& schedule = program.schedule(ref.rank);
  const Step& step = program.step(ref);
  if (step.kind == StepKind::kMove) {
    for (Source source : schedule.sources_of(step)) {
      if (source.is_message()) continue;
      for (Block block : schedule.blocks_of(step, source)) visit(BlockAccess{block, false});
    }
  }
  const bool writes = step.kind == StepKind::kMove;
  for (Block block : schedule.blocks_of(step)) visit(BlockAccess{block, writes});
}

template <class Visit>
void for_each_atom(const Program& program, StepRef ref, Visit visit) {
  for_each_access(program, ref, [&](BlockAccess access) {
    const AtomRange region = program.memory(ref.rank).region(access.block);
    for (uint32_t i = 0; i < region.count; ++i) visit(region.first + i, access);
  });
}

struct LaneOverlap {
  bool lanes_meet = false;  // some atom is touched by two lanes and written
  uint64_t accesses = 0;
};

// Most schedules give every lane its own share; then there is nothing to order.
LaneOverlap overlap_of(const Program& program, int rank) {
  LaneOverlap overlap;
  if (program.schedule(rank).lanes == 1) return overlap;
  constexpr uint16_t kNobody = 0xffff;
  struct AtomUse {
    uint16_t lane = kNobody;
    bool shared = false;
    bool written = false;
  };
  std::vector<AtomUse> uses(program.atoms(rank));
  for (uint32_t i = 0; i < program.schedule(rank).steps.size(); ++i) {
    const uint16_t lane = program.step({rank, i}).lane;
    for_each_atom(program, {rank, i}, [&](uint32_t atom, BlockAccess access) {
      AtomUse& use = uses[atom];
      use.shared |= use.lane != kNobody && use.lane != lane;
      use.lane = lane;
      use.written |= access.write;
      overlap.lanes_meet |= use.shared && use.written;
      ++overlap.accesses;
    });
  }
  return overlap;
}

// Watches some ranks while all ranks run. A clock has one entry per lane of every watched rank:
// how many of the lane's steps are certainly complete.
class ClockWatch {
 public:
  ClockWatch(const Program& program, const Matching& matching, std::span<const int> ranks)
      : program_(program),
        matching_(matching),
        lanes_(program.shape().lanes),
        size_(ranks.size() * lanes_),
        column_(static_cast<size_t>(program.ranks()), -1) {
    for (int rank : ranks) {
      column_[static_cast<size_t>(rank)] = static_cast<int>(uses_.size());
      uses_.emplace_back(size_t{program.atoms(rank)} * lanes_);
    }
    lane_clocks_.assign(static_cast<size_t>(program.ranks()) * lanes_ * size_, 0);
    step_clocks_.assign(size_t{program.total_steps()} * size_, 0);
    number_in_lanes();
  }

  Status run(std::span<const StepRef> order) {
    for (StepRef ref : order) {
      if (Status s = step(ref); !s.ok()) return s;
    }
    return {};
  }

 private:
  struct LaneUse {       // of an atom by a lane
    uint32_t write = 0;  // the last step that wrote it, + 1
    uint32_t read = 0;
    uint32_t write_count = 0;  // the same as a place in the lane
    uint32_t read_count = 0;
  };

  void number_in_lanes() {
    std::vector<uint32_t> next(lanes_);
    count_.reserve(program_.total_steps());
    for (const Schedule& schedule : program_.schedules()) {
      std::ranges::fill(next, 0);
      for (const Step& step : schedule.steps) count_.push_back(++next[step.lane]);
    }
  }

  Status step(StepRef ref) {
    const Step& step = program_.step(ref);
    const size_t lane = static_cast<size_t>(ref.rank) * lanes_ + step.lane;
    uint32_t* clock = &lane_clocks_[lane * size_];
    uint32_t* kept = &step_clocks_[program_.number(ref) * size_];
    const bool sends = step.kind == StepKind::kSend;
    const int column = column_[static_cast<size_t>(ref.rank)];
    for (uint32_t earlier : program_.schedule(ref.rank).afters_of(step)) {
      merge(clock, &step_clocks_[program_.number({ref.rank, earlier}) * size_]);
      if (column >= 0) see(clock, {ref.rank, earlier});
    }
    // A message carries the clock with which its SEND begins.
    if (sends) std::copy_n(clock, size_, kept);
    const bool only_message = step.operand_count == 1;
    if (!sends && only_message) merge_messages(ref, clock);
    if (column >= 0) {
      if (Status s = touch(ref, clock); !s.ok()) return s;
    }
    if (!sends && !only_message) merge_messages(ref, clock);
    if (column >= 0) see(clock, ref);
    if (!sends) std::copy_n(clock, size_, kept);
    return {};
  }

  void merge(uint32_t* into, const uint32_t* from) const {
    for (size_t i = 0; i < size_; ++i) into[i] = std::max(into[i], from[i]);
  }

  // The step, of a watched rank, is complete. Its own kept clock, if it is a SEND, does not say so.
  void see(uint32_t* clock, StepRef ref) const {
    const auto column = static_cast<size_t>(column_[static_cast<size_t>(ref.rank)]);
    uint32_t& entry = clock[column * lanes_ + program_.step(ref).lane];
    entry = std::max(entry, count_[program_.number(ref)]);
  }

  void merge_messages(StepRef ref, uint32_t* clock) const {
    for (uint32_t message : matching_.of_step(program_.number(ref))) {
      if (message == kNoMessage) continue;
      merge(clock, &step_clocks_[program_.number(matching_.messages()[message].send) * size_]);
    }
  }

  Status touch(StepRef ref, const uint32_t* clock) {
    const auto column = static_cast<size_t>(column_[static_cast<size_t>(ref.rank)]);
    const uint32_t* seen = clock + column * lanes_;
    const uint16_t lane = program_.step(ref).lane;
    const uint32_t count = count_[program_.number(ref)];
    Status status;
    for_each_atom(program_, ref, [&](uint32_t atom, BlockAccess access) {
      LaneUse* uses = &uses_[column][size_t{atom} * lanes_];
      for (uint16_t other = 0; other < lanes_ && status.ok(); ++other) {
        if (other == lane) continue;
        const LaneUse& use = uses[other];
        if (seen[other] < use.write_count) {
          status = race(ref, access, use.write - 1);
        } else if (access.write && seen[other] < use.read_count) {
          status = race(ref, access, use.read - 1);
        }
      }
      (access.write ? uses[lane].write : uses[lane].read) = ref.step + 1;
      (access.write ? uses[lane].write_count : uses[lane].read_count) = count;
    });
    return status;
  }

  Status race(StepRef ref, BlockAccess access, uint32_t other) const {
    return program_.refuse(ref, std::string(access.write ? "writes " : "reads ") +
                                    print(access.block) + " without coming after " +
                                    program_.where({ref.rank, other}));
  }

  const Program& program_;
  const Matching& matching_;
  size_t lanes_;
  size_t size_;                             // of a clock
  std::vector<int> column_;                 // per rank: where in a clock it is, or -1
  std::vector<uint32_t> lane_clocks_;       // per (rank, lane)
  std::vector<uint32_t> step_clocks_;       // per step: SEND at its beginning, MOVE at its end
  std::vector<uint32_t> count_;             // per step: its place in its lane, from 1
  std::vector<std::vector<LaneUse>> uses_;  // per watched rank: per (atom, lane)
};

}  // namespace

Status check_slices(const Program& program) {
  if (program.placement() == Placement::kSeparate) return {};
  if (program.geometry().blocks_are_atoms()) return {};
  struct SliceUse {
    AtomRange region;
    uint32_t step = 0;
    bool used = false;
    bool written = false;
    bool differs = false;
  };
  std::vector<SliceUse> uses;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    uses.assign(program.atoms(rank), {});
    Status status;
    for (uint32_t i = 0; i < program.schedule(rank).steps.size() && status.ok(); ++i) {
      for_each_access(program, {rank, i}, [&](BlockAccess access) {
        const AtomRange region = program.memory(rank).region(access.block);
        for (uint32_t k = 0; k < region.count && status.ok(); ++k) {
          SliceUse& use = uses[region.first + k];
          use.written |= access.write;
          use.differs |= use.used && !(use.region == region);
          if (use.differs && use.written) {
            status = program.refuse(
                {rank, i}, "in place, " + print(access.block) +
                               " overlaps a block that is not the same interval, used by " +
                               program.where({rank, use.step}));
          }
          if (!use.used) use = {region, i, true, use.written, false};
        }
      });
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status check_hazards(const Program& program, const Matching& matching,
                     std::span<const StepRef> order) {
  const size_t lanes = program.shape().lanes;
  const uint64_t clocks = uint64_t(program.ranks()) * lanes + program.total_steps();
  const auto entries = [&](int rank) { return (clocks + program.atoms(rank)) * lanes; };
  std::vector<int> overlap;
  uint64_t work = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const LaneOverlap found = overlap_of(program, rank);
    if (!found.lanes_meet) continue;
    overlap.push_back(rank);
    work += entries(rank) + found.accesses * lanes;
    if (entries(rank) > kMaxEntries || work > kMaxHazardWork) {
      return Status::unsupported("too many lanes share too many blocks to verify");
    }
  }
  for (size_t first = 0; first < overlap.size();) {
    uint64_t sum = 0;
    size_t end = first;
    while (end < overlap.size() && sum + entries(overlap[end]) <= kMaxEntries) {
      sum += entries(overlap[end++]);
    }
    ClockWatch watch(program, matching, std::span(overlap).subspan(first, end - first));
    if (Status s = watch.run(order); !s.ok()) return s;
    first = end;
  }
  return {};
}

}  // namespace tutti::schedule::verifier
