// The time of a training step and its memory for an arrangement: computing, the exchanges of each
// axis by whatever prices, the pipeline's bubble, and how much of it hides behind computing.
//
// In a layer, tensor parallelism exchanges the activations four times each way, context parallelism
// gathers keys and values, experts swap tokens four times. Gradients are reduced behind the
// backward pass of the last micro-batch, and gathered weights come behind the forward pass; ZeRO 2
// reduces in every micro-batch, ZeRO 3 gathers the weights in each, too ("ZeRO", arXiv 1910.02054).
// A time is never less where an exchange takes longer, so bounds of exchanges bound the step.
//
// Threads: a value; prices are asked from the caller's thread. Units: nanoseconds, bytes. Errors:
// none; why_not() says what an arrangement cannot be.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "src/arrange/arrangement.h"
#include "src/arrange/prices.h"
#include "src/arrange/training_model.h"

namespace tutti::arrange {

/// An encoding of values on the wire.
struct WireCodec {
  std::string text;               // as tutti/codecs.h has it: "int8_block:64"
  double bytes_of_value = 0;      // on the wire
  double coding_ns_of_value = 0;  // of a rank, to encode and decode it once each
};

struct TrainingJob {
  TrainingModel model;
  ComputeDevice device;
  double gradient_bytes = 2;  // of a value on the wire
  bool overlaps_messages = true;
  bool overlaps_gradients = true;
  // The search may use these; nothing else in it changes what is trained.
  std::vector<WireCodec> codecs{};
  std::vector<uint32_t> outer_periods{};
};

/// Of a step; the parts add up to it.
struct StepPrice {
  double ns = 0;
  double computing = 0;
  double bubble = 0;
  std::array<double, kAxes> exposed{};  // exchanges that nothing hides, by axis
};

/// The exchanges of an arrangement, and how many of each a micro-batch or step has.
struct StepExchanges {
  // Of a micro-batch, each so many times.
  GroupExchange tensor, tensor_scatter;
  double tensor_times = 0, tensor_scatter_times = 0;
  GroupExchange context, context_scatter;
  double context_times = 0, context_scatter_times = 0;
  GroupExchange expert;
  double expert_times = 0;
  GroupExchange message;  // between two stages; its level is that of a border
  // Of the gradients, all_reduced or reduce_scattered; with ZeRO the weights are all_gathered, too.
  GroupExchange gradients, expert_gradients, weights, expert_weights;
  // Of the parameters, once in Arrangement::outer_period steps.
  GroupExchange outer;
};

/// As describe(), with the name of the codec.
std::string describe(const Arrangement& arrangement, const TrainingJob& job);

/// The axes that are placed on the levels; of others only the degree counts.
using KnownAxes = std::array<bool, kAxes>;
inline constexpr KnownAxes kAllAxes = {true, true, true, true, true};

class StepPricer {
 public:
  using TimeOf = std::function<double(const GroupExchange&)>;

  StepPricer(const TrainingJob& job, const EvenCluster& cluster) : job_(job), cluster_(cluster) {}

  /// Why degrees, micro-batches or chunks do not divide; empty: they do. It does not look at the
  /// memory.
  std::string why_not(const Arrangement& arrangement) const;
  /// Of one whose axes are all placed: why it does not fit the memory, or makes no use of its outer
  /// optimizer; empty: neither.
  std::string why_not_placed(const Arrangement& arrangement) const;
  /// Of the rank that keeps most; of axes that are not placed the least that it may be.
  double memory(const Arrangement& arrangement) const;
  StepPrice price(const Arrangement& arrangement, const TimeOf& time_of) const {
    return price(arrangement, kAllAxes, time_of, time_of);
  }
  /// With times of their own for exchanges of axes that are not placed; messages between stages are
  /// then all asked about as those of the innermost level.
  StepPrice price(const Arrangement& arrangement, const KnownAxes& known, const TimeOf& placed,
                  const TimeOf& unplaced) const;
  StepExchanges exchanges(const Arrangement& arrangement) const;
  /// Forward and backward of a micro-batch in the rank that computes most, without exchanges.
  double computing_ns(const Arrangement& arrangement) const;
  /// The times of the messages from each stage to the next.
  std::vector<double> hops(const Arrangement& arrangement, const TimeOf& time_of) const;
  /// Model operations for a second, of what the cluster's devices could do.
  double utilisation(const StepPrice& price) const;

  const TrainingJob& job() const { return job_; }
  const EvenCluster& cluster() const { return cluster_; }

 private:
  double layers_of_rank(const Arrangement& arrangement) const;
  double gradients_exposed(const Arrangement& arrangement, double turn,
                           const TimeOf& time_of) const;
  Spread reduced_in_step(const Arrangement& arrangement, Spread group) const;
  double coding_ns(const Arrangement& arrangement, const GroupExchange& exchange) const;
  double outer_ns(const Arrangement& arrangement, const TimeOf& time_of) const;

  TrainingJob job_;
  EvenCluster cluster_;
};

/// Bytes over a cut between two sites in a step, as ScaleAcross Explorer compares placements (arXiv
/// 2605.24326): of `pipelines` that cross it, forward and backward; of gradients that are reduced
/// between `sites`, which each site sends.
double pipeline_cut_bytes(double pipelines, double micro_batches, double bytes_of_border);
double gradient_cut_bytes(double sites, double parameters, double bytes_of_value);

}  // namespace tutti::arrange
