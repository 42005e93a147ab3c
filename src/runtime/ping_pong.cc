#include <string>
#include <utility>
#include <vector>

#include "src/runtime/attention_exchange.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/attention_timelines.h"

namespace tutti::runtime {
namespace {

/// One rank's tasks, layer by layer.
class PingPongRank {
 public:
  PingPongRank(TimelineBuilder& builder, const PingPongSpec& spec, int rank, int channel)
      : builder_(builder), spec_(spec), rank_(rank) {
    for (int n = 0; n < spec.nano_batches; ++n) {
      exchanges_.emplace_back(builder, spec.layer, rank, channel);
    }
  }

  void add() {
    for (int n = 0; n < spec_.nano_batches; ++n) add_between(n, 0);
    for (int l = 0; l < spec_.layers; ++l) {
      std::vector<int> entered;
      for (int n = 0; n < spec_.nano_batches; ++n) {
        entered.push_back(exchanges_[at(n)].enter(tag_of(l, n), {between_[at(n)]}));
      }
      attended_.clear();
      for (int n = 0; n < spec_.nano_batches; ++n) {
        const int task =
            exchanges_[at(n)].attend(entered[at(n)], spec_.layer.attention, "CA" + text_of(l, n));
        builder_.task(task).item = builder_.timeline().items++;
        attended_.push_back(task);
      }
      std::vector<int> left;
      for (int n = 0; n < spec_.nano_batches; ++n) {
        left.push_back(exchanges_[at(n)].exit(tag_of(l, n) + 1, attended_[at(n)]));
      }
      for (int n = 0; n < spec_.nano_batches; ++n) add_between(n, l + 1, left[at(n)]);
    }
  }

 private:
  int tag_of(int layer, int nano) const { return (layer * spec_.nano_batches + nano) * 2; }
  static std::string text_of(int layer, int nano) {
    return std::to_string(nano) + "." + std::to_string(layer);
  }

  /// Adds the work between the attention of the layer before and that of this layer.
  void add_between(int n, int layer, int left = -1) {
    TimelineTask task;
    task.rank = rank_;
    task.name = "CI" + text_of(layer, n);
    if (left >= 0) {
      task.duration += spec_.layer.after;
      task.after = {left};
      task.reads = {exchanges_[at(n)].output()};
    }
    if (layer < spec_.layers) task.duration += spec_.layer.before;
    task.writes = {exchanges_[at(n)].input()};
    task.item = builder_.timeline().items++;
    between_.resize(at(spec_.nano_batches));
    between_[at(n)] = builder_.add(std::move(task));
  }

  TimelineBuilder& builder_;
  const PingPongSpec& spec_;
  int rank_;
  std::vector<AttentionExchange> exchanges_;  // of each nano-batch
  std::vector<int> between_, attended_;       // the last tasks, of each nano-batch
};

}  // namespace

void check_layer(const AttentionLayer& layer) {
  for (const Nanoseconds time :
       {layer.before, layer.attention, layer.after, layer.enter, layer.exit}) {
    require(time >= Nanoseconds(0), "a time of the layer is negative");
  }
  checked_sum(layer.before.value, layer.after.value, "the time between two layers' attention");
  require(layer.enter_bytes >= Bytes(0) && layer.exit_bytes >= Bytes(0),
          "a size of the layer is negative");
}

Timeline ping_pong(const PingPongSpec& spec) {
  require(spec.ranks >= 1 && spec.layers >= 1, spec.ranks, " ranks and ", spec.layers,
          " layers; give 1 or more of each");
  require(spec.nano_batches >= 2, spec.nano_batches,
          " nano-batches leave nothing to compute under communication; give 2 or more");
  check_layer(spec.layer);
  check_ranks(spec.ranks);
  const int64_t exchanges =
      checked_product(spec.layers, 2 * int64_t{spec.nano_batches}, "the number of exchanges");
  check_parts(checked_product(exchanges, spec.ranks, "the exchanges of all ranks"), "exchanges");
  TimelineBuilder builder(spec.ranks);
  const int channel = builder.channel(RankSet::range(0, spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) PingPongRank(builder, spec, rank, channel).add();
  return builder.take();
}

Timeline example_ping_pong(int ranks) {
  PingPongSpec spec;
  spec.ranks = ranks;
  spec.layers = 3;
  spec.layer.enter_bytes = Bytes(4096);
  spec.layer.exit_bytes = Bytes(1024);
  return ping_pong(spec);
}

}  // namespace tutti::runtime
