#include "tutti/runtime/ring.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

/// One ring as a rank sees it: two buffers by turns, and who used each last.
class RingSide {
 public:
  RingSide(TimelineBuilder& builder, Track send, Track recv, bool sends_first)
      : builder_(builder),
        tracks_{send, recv},
        sends_first_(sends_first),
        buffers_{builder.buffer(), builder.buffer()} {}

  int buffer(int step) const { return buffers_[step % 2]; }
  /// Notes a task that reads or writes what the step holds.
  void use(int step, int task) { users_[step % 2].push_back(task); }
  /// The tasks that must have ended before the step's buffer may be written.
  std::vector<int> before_write(int step) const { return users_[step % 2]; }
  void forget(int step) { users_[step % 2].clear(); }

  struct Hop {
    int step = 0;                   // what is sent; the next one is received
    int out = 0, in = 0;            // channels
    std::vector<int> source_users;  // tasks that made what is sent
    int source = 0;                 // its buffer
    Nanoseconds duration{0};
    Bytes bytes{0};
  };
  /// Adds the send of a step's block and the receive of the next one's; returns the two tasks.
  std::pair<int, int> hop(int rank, const Hop& hop) {
    TimelineTask send, recv;
    for (TimelineTask* task : {&send, &recv}) {
      task->rank = rank;
      task->duration = hop.duration;
      task->bytes = hop.bytes;
      task->tag = hop.step;
    }
    send.kind = TaskKind::kSend;
    send.track = tracks_[0];
    send.channel = hop.out;
    send.name = "send " + std::to_string(hop.step);
    send.after = hop.source_users;
    send.reads = {hop.source};
    recv.kind = TaskKind::kRecv;
    recv.track = tracks_[1];
    recv.channel = hop.in;
    recv.name = "recv " + std::to_string(hop.step + 1);
    recv.after = before_write(hop.step + 1);
    recv.writes = {buffer(hop.step + 1)};
    forget(hop.step + 1);
    if (sends_first_) {
      const int sent = builder_.add(std::move(send));
      return {sent, builder_.add(std::move(recv))};
    }
    const int received = builder_.add(std::move(recv));
    return {builder_.add(std::move(send)), received};
  }

 private:
  TimelineBuilder& builder_;
  Track tracks_[2];
  bool sends_first_;
  int buffers_[2];
  std::vector<int> users_[2];
};

void check(const RingSpec& spec) {
  require(spec.nodes >= 1 && spec.gpus >= 1, spec.nodes, " nodes of ", spec.gpus,
          " gpus; give 1 or more of each");
  const int64_t ranks = checked_product(spec.nodes, spec.gpus, "the number of ranks");
  check_ranks(ranks);
  check_parts(ranks * ranks, "steps of all ranks");
  require(spec.compute >= Nanoseconds(0) && spec.intra >= Nanoseconds(0) &&
              spec.inter >= Nanoseconds(0) && spec.prologue >= Nanoseconds(0),
          "a time of the ring is negative");
}

/// The rank's own block: it is there once the prologue has ended.
int add_prologue(TimelineBuilder& builder, int rank, Nanoseconds duration, int buffer) {
  TimelineTask task;
  task.rank = rank;
  task.name = "own block";
  task.duration = duration;
  task.writes = {buffer};
  return builder.add(std::move(task));
}

int add_step(TimelineBuilder& builder, const RingSpec& spec, int rank, int step, int buffer) {
  TimelineTask task;
  task.rank = rank;
  task.name = "C" + std::to_string(step);
  task.duration = spec.compute;
  task.reads = {buffer};
  task.item = int64_t{rank} * spec.nodes * spec.gpus + step;
  return builder.add(std::move(task));
}

/// One rank of the two-level ring.
class TwoLevelRank {
 public:
  TwoLevelRank(TimelineBuilder& builder, const RingSpec& spec, int rank,
               const std::vector<int>& inner, const std::vector<int>& outer)
      : builder_(builder),
        spec_(spec),
        rank_(rank),
        inner_channels_(inner),
        outer_channels_(outer),
        inner_(builder, Track::kCommHigh, Track::kCommLow, true),
        outer_(builder, Track::kCopy, Track::kCopy, rank / spec.gpus % 2 == 0) {}

  void add() {
    int arrived = add_prologue(builder_, rank_, spec_.prologue, outer_.buffer(0));
    for (int o = 0; o < spec_.nodes; ++o) {
      outer_.use(o, arrived);
      int next = arrived;
      if (o + 1 < spec_.nodes) next = add_outer_hop(o, arrived);
      add_inner_ring(o, arrived);
      arrived = next;
    }
  }

 private:
  int add_outer_hop(int o, int arrived) {
    const int ranks = spec_.nodes * spec_.gpus;
    const auto [sent, received] =
        outer_.hop(rank_, {o,
                           outer_channels_[at(rank_)],
                           outer_channels_[at((rank_ + ranks - spec_.gpus) % ranks)],
                           {arrived},
                           outer_.buffer(o),
                           spec_.inter,
                           spec_.block});
    outer_.use(o, sent);
    return received;
  }

  void add_inner_ring(int o, int arrived) {
    const int node = rank_ / spec_.gpus * spec_.gpus, place = rank_ - node;
    int held = arrived;
    for (int i = 0; i < spec_.gpus; ++i) {
      const int step = o * spec_.gpus + i;
      const int buffer = i == 0 ? outer_.buffer(o) : inner_.buffer(step);
      RingSide& side = i == 0 ? outer_ : inner_;
      const int turn = i == 0 ? o : step;
      int next = held;
      if (i + 1 < spec_.gpus) {
        const int from = node + (place + spec_.gpus - 1) % spec_.gpus;
        const auto [sent, received] = inner_.hop(rank_, {step,
                                                         inner_channels_[at(rank_)],
                                                         inner_channels_[at(from)],
                                                         {held},
                                                         buffer,
                                                         spec_.intra,
                                                         spec_.block});
        side.use(turn, sent);
        inner_.use(step + 1, received);
        next = received;
      }
      const int computed = add_step(builder_, spec_, rank_, step, buffer);
      builder_.task(computed).after = {held};
      side.use(turn, computed);
      held = next;
    }
  }

  TimelineBuilder& builder_;
  const RingSpec& spec_;
  int rank_;
  const std::vector<int>&inner_channels_, &outer_channels_;
  RingSide inner_, outer_;
};

}  // namespace

Timeline ring(const RingSpec& spec) {
  check(spec);
  const int ranks = spec.nodes * spec.gpus;
  TimelineBuilder builder(ranks);
  builder.timeline().items = int64_t{ranks} * ranks;
  std::vector<int> channels;
  for (int r = 0; ranks > 1 && r < ranks; ++r) {
    channels.push_back(builder.channel(RankSet({r, (r + 1) % ranks})));
  }
  for (int r = 0; r < ranks; ++r) {
    RingSide side(builder, Track::kCommHigh, Track::kCommLow, true);
    int held = add_prologue(builder, r, spec.prologue, side.buffer(0));
    side.use(0, held);
    for (int step = 0; step < ranks; ++step) {
      int next = held;
      if (step + 1 < ranks) {
        const int from = (r + ranks - 1) % ranks;
        // A ring's hop waits for the slowest of all, a step later at most.
        const bool leaves = spec.nodes > 1;
        const auto [sent, received] =
            side.hop(r, {step,
                         channels[at(r)],
                         channels[at(from)],
                         {held},
                         side.buffer(step),
                         leaves ? std::max(spec.intra, spec.inter) : spec.intra,
                         spec.block});
        side.use(step, sent);
        side.use(step + 1, received);
        next = received;
      }
      const int computed = add_step(builder, spec, r, step, side.buffer(step));
      builder.task(computed).after = {held};
      side.use(step, computed);
      held = next;
    }
  }
  return builder.take();
}

Timeline two_level_ring(const RingSpec& spec) {
  check(spec);
  const int ranks = spec.nodes * spec.gpus;
  TimelineBuilder builder(ranks);
  builder.timeline().items = int64_t{ranks} * ranks;
  std::vector<int> inner, outer;
  for (int r = 0; r < ranks; ++r) {
    const int node = r / spec.gpus * spec.gpus;
    const int beside = node + (r - node + 1) % spec.gpus, beyond = (r + spec.gpus) % ranks;
    inner.push_back(spec.gpus > 1 ? builder.channel(RankSet({r, beside})) : -1);
    outer.push_back(spec.nodes > 1 ? builder.channel(RankSet({r, beyond})) : -1);
  }
  for (int r = 0; r < ranks; ++r) TwoLevelRank(builder, spec, r, inner, outer).add();
  return builder.take();
}

RingBalance ring_balance(const Sharding& blocks, std::span<const int64_t> offsets) {
  validate(blocks);
  check_parts(blocks.size, "blocks");
  require(blocks.copies == 1, "the blocks are held by ", blocks.copies, " ranks; give each one");
  std::vector<int> owner(at(blocks.size));
  for (const Shard& shard : blocks.shards) {
    std::fill_n(owner.begin() + shard.begin, shard.length, shard.rank);
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    require(offsets[i] >= 0 && offsets[i] < blocks.size && (i == 0 || offsets[i] > offsets[i - 1]),
            "offset ", offsets[i], " is not ascending, or not below ", blocks.size, " blocks");
  }
  const int ranks = blocks.ranks;
  std::vector<int64_t> work(at(ranks) * at(ranks), 0), of_rank(at(ranks), 0);
  int64_t total = 0;
  for (int64_t query = 0; query < blocks.size; ++query) {
    for (const int64_t offset : offsets) {
      if (offset > query) break;
      const int q = owner[at(query)], k = owner[at(query - offset)];
      ++work[at((q - k + ranks) % ranks) * at(ranks) + at(q)];
      ++of_rank[at(q)];
      ++total;
    }
  }
  require(total > 0, "the mask is empty; give at least one offset");
  int64_t time = 0;
  for (int step = 0; step < ranks; ++step) {
    const auto begin = work.begin() + step * ranks;
    time += *std::max_element(begin, begin + ranks);
  }
  const double even = static_cast<double>(total) / ranks;
  return {static_cast<double>(*std::max_element(of_rank.begin(), of_rank.end())) / even,
          static_cast<double>(time) / even};
}

Timeline example_ring(int ranks) {
  RingSpec spec;
  spec.gpus = ranks;
  spec.block = Bytes(4096);
  return ring(spec);
}

Timeline example_two_level_ring(int ranks) {
  RingSpec spec;
  spec.nodes = ranks % 2 == 0 ? 2 : 1;
  spec.gpus = ranks / spec.nodes;
  spec.block = Bytes(4096);
  return two_level_ring(spec);
}

}  // namespace tutti::runtime
