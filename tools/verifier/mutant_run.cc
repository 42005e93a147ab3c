// The interpreter: real elements, real offsets, a random order of lanes. It shares with the
// verifier only the layout, and checks that too.

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/verifier/mutant.h"

namespace tutti::schedule {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64: a good scrambler and, counted up, a good generator
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

struct Piece {
  uint64_t* data = nullptr;
  uint64_t length = 0;
};

// A rank's buffers. Sums are of random 64-bit numbers: a wrong set of contributions shows.
class Memory {
 public:
  Memory(const Shape& shape, const Schedule& schedule, const RunOptions& options)
      : shape_(shape), schedule_(schedule), options_(options), layout_(shape, options.count) {
    const auto rank = static_cast<uint64_t>(schedule.rank);
    const uint64_t in = input_elements(shape, schedule.rank, options.count);
    const uint64_t out = output_elements(shape, schedule.rank, options.count);
    const bool separate =
        options.placement == Placement::kSeparate || !has_both(shape, schedule.rank);
    const Traits& traits = traits_of(shape.collective);
    if (separate) {
      out_begin_ = in;
    } else if (traits.nests(Space::kInput)) {
      in_begin_ = rank * options.count;
    } else if (traits.nests(Space::kOutput)) {
      out_begin_ = rank * options.count;
    }
    user_.resize(separate ? in + out : std::max(in, out));
    for (uint64_t i = 0; i < user_.size(); ++i) user_[i] = mix(options.seed ^ mix(~i));
    for (uint64_t i = 0; i < in; ++i) user_[in_begin_ + i] = contribution(options, rank, i);
    scratch_.resize(options.slices);
    for (auto& slice : scratch_) {
      for (Block like : schedule.scratch) {
        slice.emplace_back(layout_.extent(like).length, mix(options.seed + 1));
      }
    }
  }

  static uint64_t contribution(const RunOptions& options, uint64_t rank, uint64_t index) {
    return mix(options.seed * 1000003 + mix(rank * 1000000007 + index));
  }

  Piece piece(Block block, uint64_t slice) {
    const uint64_t length = layout_.length(schedule_, block);
    const Extent part = tutti::schedule::piece(length, slice, options_.slices, options_.quantum);
    if (block.space() == Space::kScratch) {
      return {scratch_[slice][block.index()].data() + part.offset, part.length};
    }
    const uint64_t begin = block.space() == Space::kInput ? in_begin_ : out_begin_;
    return {user_.data() + begin + layout_.extent(block).offset + part.offset, part.length};
  }

  Status check_output() const {
    const uint64_t out = output_elements(shape_, schedule_.rank, options_.count);
    for (uint64_t i = 0; i < out; ++i) {
      if (user_[out_begin_ + i] == expected(i)) continue;
      return Status::internal_error("rank " + std::to_string(schedule_.rank) + ": element " +
                                    std::to_string(i) + " of the output is wrong");
    }
    return {};
  }

 private:
  uint64_t expected(uint64_t i) const {
    const uint64_t count = options_.count;
    const auto rank = static_cast<uint64_t>(schedule_.rank);
    switch (shape_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(rank * count + i);
      case Collective::kAllGather:
      case Collective::kGather:
        return contribution(options_, i / count, i % count);
      case Collective::kScatter:
        return contribution(options_, static_cast<uint64_t>(shape_.root), rank * count + i);
      case Collective::kAllToAll:
        return contribution(options_, i / count, rank * count + i % count);
      case Collective::kBroadcast:
        return contribution(options_, static_cast<uint64_t>(shape_.root), i);
      case Collective::kBarrier:
        break;
    }
    return 0;
  }

  uint64_t sum(uint64_t i) const {
    uint64_t total = 0;
    for (uint64_t rank = 0; rank < static_cast<uint64_t>(shape_.ranks); ++rank) {
      total += contribution(options_, rank, i);
    }
    return total;
  }

  const Shape& shape_;
  const Schedule& schedule_;
  const RunOptions& options_;
  Layout layout_;
  uint64_t in_begin_ = 0;
  uint64_t out_begin_ = 0;
  std::vector<uint64_t> user_;
  std::vector<std::vector<std::vector<uint64_t>>> scratch_;  // per slice and block
};

struct Channel {
  std::deque<std::vector<uint64_t>> messages;
  uint64_t sent = 0;
  uint64_t consumed = 0;
};

// One lane of a rank, or all of them in array order.
struct Thread {
  int rank = 0;
  std::vector<uint32_t> steps;
  uint64_t slice = 0;
  size_t next = 0;  // into steps
  bool offered = false;
  uint64_t priority = 0;
};

class Interpreter {
 public:
  Interpreter(const Shape& shape, std::span<const Schedule> schedules, const RunOptions& options)
      : shape_(shape), schedules_(schedules), options_(options), random_(mix(options.seed)) {
    for (const Schedule& schedule : schedules) {
      waiting_.push_back(schedule.rank);
      memory_.emplace_back(shape, schedule, options);
      complete_.emplace_back(schedule.steps.size(), 0);
      const int threads = options.one_thread ? 1 : schedule.lanes;
      for (int lane = 0; lane < threads; ++lane) {
        Thread& thread = threads_.emplace_back();
        thread.rank = schedule.rank;
        for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
          if (options.one_thread || schedule.steps[i].lane == lane) thread.steps.push_back(i);
        }
      }
    }
  }

  // The runnable thread of the highest priority goes on; priorities change now and then, so that a
  // thread can be far ahead or far behind. Ranks enter the call late: mostly when nobody who has
  // entered can go on.
  Status run() {
    while (true) {
      if (next_random() % 8 == 0) {
        for (Thread& thread : threads_) thread.priority = next_random();
      }
      if (!waiting_.empty() && next_random() % 32 == 0) enter();
      const bool moved = advance_any();
      if (!status_.ok()) return status_;
      if (moved) continue;
      if (waiting_.empty()) break;
      enter();
    }
    if (!std::ranges::all_of(threads_, [&](const Thread& t) { return finished(t); })) {
      return Status::internal_error("deadlock");
    }
    for (const Memory& memory : memory_) {
      if (Status s = memory.check_output(); !s.ok()) return s;
    }
    return {};
  }

 private:
  uint64_t next_random() { return mix(random_++); }

  bool finished(const Thread& thread) const {
    return thread.slice == options_.slices || thread.steps.empty();
  }

  void enter() {
    const size_t which = next_random() % waiting_.size();
    std::swap(waiting_[which], waiting_.back());
    waiting_.pop_back();
  }

  bool advance_any() {
    std::vector<Thread*> order;
    for (Thread& thread : threads_) {
      const bool entered = std::ranges::find(waiting_, thread.rank) == waiting_.end();
      if (entered && !finished(thread)) order.push_back(&thread);
    }
    std::ranges::sort(order, {}, &Thread::priority);
    for (Thread* thread : order) {
      if (!advance(*thread)) continue;
      check_barrier(thread->rank);
      return true;
    }
    return false;
  }

  void check_barrier(int rank) {
    if (shape_.collective != Collective::kBarrier || waiting_.empty()) return;
    const bool left = std::ranges::all_of(
        threads_, [&](const Thread& thread) { return thread.rank != rank || finished(thread); });
    if (left) fail("rank " + std::to_string(rank) + " leaves the barrier before all have entered");
  }

  const Schedule& schedule(int rank) const { return schedules_[static_cast<size_t>(rank)]; }

  Channel& channel(int source, int target, uint16_t lane) {
    return channels_[{source, target, lane}];
  }

  bool advance(Thread& thread) {
    const uint32_t index = thread.steps[thread.next];
    const Schedule& mine = schedule(thread.rank);
    const Step& step = mine.steps[index];
    auto& complete = complete_[static_cast<size_t>(thread.rank)];
    for (uint32_t earlier : mine.afters_of(step)) {
      if (complete[earlier] <= thread.slice) return false;
    }
    const bool offered = thread.offered;
    const bool done = step.kind == StepKind::kSend ? send(thread, step) : move(thread, step);
    if (!done) return thread.offered != offered;
    complete[index] = thread.slice + 1;
    if (++thread.next == thread.steps.size()) {
      thread.next = 0;
      ++thread.slice;
    }
    return true;
  }

  bool send(Thread& thread, const Step& step) {
    const Schedule& mine = schedule(thread.rank);
    const auto peers = mine.peers_of(step);
    const auto every = [&](auto holds) {
      return std::ranges::all_of(peers, [&](uint32_t peer) {
        return holds(channel(thread.rank, static_cast<int>(peer), step.lane));
      });
    };
    if (!thread.offered) {
      if (options_.credit != 0 &&
          !every([&](Channel& c) { return c.sent - c.consumed < options_.credit; })) {
        return false;
      }
      std::vector<uint64_t> data;
      for (Block block : mine.blocks_of(step)) {
        const Piece from = memory_[static_cast<size_t>(thread.rank)].piece(block, thread.slice);
        data.insert(data.end(), from.data, from.data + from.length);
      }
      every([&](Channel& c) {
        c.messages.push_back(data);
        return ++c.sent != 0;
      });
    }
    thread.offered =
        options_.credit == 0 && !every([](Channel& c) { return c.sent == c.consumed; });
    return !thread.offered;
  }

  bool move(Thread& thread, const Step& step) {
    const Schedule& mine = schedule(thread.rank);
    const auto sources = mine.sources_of(step);
    std::map<int, uint64_t> needed;
    for (Source source : sources) {
      if (source.is_message()) ++needed[source.peer()];
    }
    for (const auto& [peer, count] : needed) {
      if (channel(peer, thread.rank, step.lane).messages.size() < count) return false;
    }
    Memory& memory = memory_[static_cast<size_t>(thread.rank)];
    std::vector<uint64_t> folded;
    for (size_t k = 0; k < sources.size(); ++k) {
      std::vector<uint64_t> values;
      if (sources[k].is_message()) {
        Channel& from = channel(sources[k].peer(), thread.rank, step.lane);
        values = std::move(from.messages.front());
        from.messages.pop_front();
        ++from.consumed;
      } else {
        for (Block block : mine.blocks_of(step, sources[k])) {
          const Piece piece = memory.piece(block, thread.slice);
          values.insert(values.end(), piece.data, piece.data + piece.length);
        }
      }
      if (k == 0) folded.resize(values.size(), 0);
      if (folded.size() != values.size()) return fail("sources of different lengths");
      for (size_t i = 0; i < values.size(); ++i) folded[i] += values[i];
    }
    return store(thread, step, folded);
  }

  bool store(Thread& thread, const Step& step, const std::vector<uint64_t>& values) {
    size_t next = 0;
    for (Block block : schedule(thread.rank).blocks_of(step)) {
      const Piece to = memory_[static_cast<size_t>(thread.rank)].piece(block, thread.slice);
      if (next + to.length > values.size()) return fail("a message is too short");
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(next), to.length, to.data);
      next += to.length;
    }
    return next == values.size() || fail("a message is too long");
  }

  bool fail(const std::string& what) {
    status_ = Status::internal_error(what);
    return false;
  }

  const Shape& shape_;
  std::span<const Schedule> schedules_;
  const RunOptions& options_;
  uint64_t random_;
  std::vector<int> waiting_;  // ranks that have not entered the call
  Status status_;
  std::vector<Memory> memory_;
  std::vector<std::vector<uint64_t>> complete_;  // per rank and step: slices
  std::vector<Thread> threads_;
  std::map<std::tuple<int, int, uint16_t>, Channel> channels_;
};

}  // namespace

Status run_schedule(const Shape& shape, std::span<const Schedule> schedules,
                    const RunOptions& options) {
  return Interpreter(shape, schedules, options).run();
}

bool same_elements(const ScheduleSet& set, Placement placement, int rank, Block a, Block b) {
  const bool scratch = a.space() == Space::kScratch || b.space() == Space::kScratch;
  if (scratch || placement == Placement::kSeparate || !has_both(set.shape, rank)) return a == b;
  RunOptions options;
  options.placement = placement;
  for (const uint64_t count : {59, 60, 97, 128}) {  // no block of a small set is empty
    options.count = count;
    Memory memory(set.shape, set.schedules[static_cast<size_t>(rank)], options);
    const Piece x = memory.piece(a, 0), y = memory.piece(b, 0);
    if (x.data != y.data || x.length != y.length) return false;
  }
  return true;
}

}  // namespace tutti::schedule
