#include "src/arrange/step_price.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/arrange/pipeline_price.h"

namespace tutti::arrange {
namespace {

constexpr double kElement = 2;         // bytes of an activation, weight or gradient
constexpr double kParameter = 4;       // bytes of a parameter that an outer optimizer exchanges
constexpr double kOuterOptimizer = 8;  // bytes of a parameter: its outer copy and a momentum
constexpr double kOptimizer = 12;      // bytes of a parameter: its copy in fp32 and Adam's two
constexpr double kAttentionKept = 15;  // bytes of a token and hidden value in a layer
constexpr double kForwardKept = 19;    // and for a feed-forward part four times as wide as hidden
constexpr double kWholeKept = 10;      // of both, what tensor parallelism alone does not divide
constexpr double kLogitBytes = 6;

std::string number(uint32_t value) { return std::to_string(value); }

double tokens_of_rank(const TrainingModel& model, const Arrangement& a) {
  return 1.0 * a.micro_batch * model.sequence / a.degree(Axis::kContext);
}

double divided_if(bool divides, double bytes, double ranks) {
  return divides ? bytes / ranks : bytes;
}

}  // namespace

std::string StepPricer::why_not(const Arrangement& a) const {
  const TrainingModel& model = job_.model;
  const uint32_t tensor = a.degree(Axis::kTensor), context = a.degree(Axis::kContext);
  const uint32_t expert = a.degree(Axis::kExpert), pipeline = a.degree(Axis::kPipeline);
  const uint64_t replicas = uint64_t{expert} * a.degree(Axis::kData);
  if (model.heads % tensor != 0) {
    return number(tensor) + " tensor-parallel ranks do not divide " + number(model.heads) +
           " heads";
  }
  if (context > 1 && model.sequence % (2 * context) != 0) {
    return number(context) + " context-parallel ranks do not divide the halves of " +
           number(model.sequence) + " tokens";
  }
  if (expert > 1 && (model.experts == 0 || model.experts % expert != 0)) {
    return number(expert) + " expert-parallel ranks do not divide " + number(model.experts) +
           " experts";
  }
  if (uint64_t{pipeline} * a.chunks > model.layers) {
    return number(pipeline) + " stages of " + number(a.chunks) + " chunks are more than " +
           number(model.layers) + " layers";
  }
  if (model.batch != replicas * a.micro_batch * a.micro_batches) {
    return std::to_string(replicas) + " replicas with micro-batches of " + number(a.micro_batch) +
           " do not divide a batch of " + number(model.batch);
  }
  if (a.chunks > 1 && (pipeline == 1 || a.micro_batches % pipeline != 0)) {
    return "chunks need micro-batches that are a multiple of the stages";
  }
  return {};
}

// With an outer optimizer each node of the outermost level reduces gradients by itself.
Spread StepPricer::reduced_in_step(const Arrangement& a, Spread group) const {
  const size_t outermost = cluster_.levels.size() - 1;
  if (a.outer_period > 0) group.at[outermost] /= a[Axis::kData].at[outermost];
  return group;
}

std::string StepPricer::why_not_placed(const Arrangement& a) const {
  if (a.outer_period > 0 && a[Axis::kData].at[cluster_.levels.size() - 1] == 1) {
    return "an outer optimizer has no data-parallel ranks on the outermost level";
  }
  return memory(a) <= job_.device.memory ? "" : "it does not fit the memory of a device";
}

std::string describe(const Arrangement& arrangement, const TrainingJob& job) {
  const std::string text = describe(arrangement);
  return arrangement.codec == 0 ? text : text + ", " + job.codecs[arrangement.codec - 1].text;
}

double StepPricer::layers_of_rank(const Arrangement& a) const {
  const double parts = 1.0 * a.degree(Axis::kPipeline) * a.chunks;
  return std::ceil(job_.model.layers / parts) * a.chunks;
}

double StepPricer::memory(const Arrangement& a) const {
  const TrainingModel& model = job_.model;
  const double tensor = a.degree(Axis::kTensor), stages = a.degree(Axis::kPipeline);
  const double layers = layers_of_rank(a);
  const double outside = stages == 1 ? 2 * model.embedding() : model.embedding();
  const double dense = (layers * model.dense_layer() + outside) / tensor;
  const double experts =
      layers * model.experts * model.expert() / (tensor * a.degree(Axis::kExpert));
  const auto state = [&](double parameters, double group) {
    return parameters *
           (divided_if(a.zero >= 3, kElement, group) + divided_if(a.zero >= 2, kElement, group) +
            divided_if(a.zero >= 1, kOptimizer, group));
  };
  double bytes = state(dense, reduced_in_step(a, a.gradient_group()).degree()) +
                 state(experts, reduced_in_step(a, a.expert_gradient_group()).degree());
  if (a.outer_period > 0) bytes += kOuterOptimizer * (dense + experts);
  if (a.zero >= 3) {  // the layer that computes and the one that is gathered ahead of it
    bytes += 2 * kElement / tensor *
             (model.dense_layer() + model.experts * model.expert() / a.degree(Axis::kExpert));
  }
  const double wide = tokens_of_rank(model, a) * model.hidden;
  const double width = model.feed_forward + 1.0 * model.experts_per_token * model.expert_width;
  const double forward = kForwardKept * width / (4.0 * model.hidden);
  const double whole = a.sequence_parallel || tensor == 1 ? 0 : kWholeKept;
  const double layer = wide * ((kAttentionKept + forward - whole) / tensor + whole);
  // A layer that is computed again keeps its input, and all of one layer while it is.
  const double input = wide * kElement / (a.sequence_parallel ? tensor : 1);
  const double micro_batches = a.micro_batches;
  // Of the first rank, in chunks of a micro-batch.
  const double live = a.chunks == 1 ? std::min(stages, micro_batches)
                                    : std::min((a.chunks - 1) * stages + 2 * (stages - 1) + 1,
                                               micro_batches * a.chunks);
  const double layers_live = live * layers / a.chunks;
  const double first = a.recomputed ? layers_live * input + layer : layers_live * layer;
  const double logits = kLogitBytes * tokens_of_rank(model, a) * model.vocabulary / tensor;
  const double last = (a.recomputed ? layers * input + layer : layers * layer) + logits;
  return bytes + (stages == 1 ? last : std::max(first, last));
}

double StepPricer::computing_ns(const Arrangement& a) const {
  const TrainingModel& model = job_.model;
  const ComputeDevice& device = job_.device;
  const double tokens = tokens_of_rank(model, a) / a.degree(Axis::kTensor);
  double layer = 6 * model.dense_layer() / device.matmul +
                 12.0 * model.hidden * model.sequence / device.attention;
  if (model.experts > 0) {
    layer += 6 * model.experts_per_token * model.expert() / device.experts;
  }
  if (a.recomputed) layer *= 4.0 / 3;
  const double output = 6 * model.embedding() / device.matmul;
  const double parts = 1.0 * a.degree(Axis::kPipeline) * a.chunks;
  const double fewest = std::floor(model.layers / parts) * a.chunks;
  const double most = std::max(layers_of_rank(a) * layer, fewest * layer + output);
  return tokens * most / device.flops_per_ns;
}

StepExchanges StepPricer::exchanges(const Arrangement& a) const {
  const TrainingModel& model = job_.model;
  const double tensor = a.degree(Axis::kTensor), layers = layers_of_rank(a);
  const double tokens = tokens_of_rank(model, a), wide = tokens * model.hidden * kElement;
  const double again = a.recomputed ? 1 : 0;
  StepExchanges all;
  const Spread& tensors = a[Axis::kTensor];
  all.tensor = {a.sequence_parallel ? ExchangeKind::kAllGather : ExchangeKind::kAllReduce, tensors,
                wide};
  all.tensor_scatter = {ExchangeKind::kReduceScatter, tensors, wide};
  all.tensor_times = (4 + 2 * again) * layers;
  all.tensor_scatter_times = a.sequence_parallel ? all.tensor_times : 0;
  const double own_kv = model.kv_width() / std::min<double>(tensor, model.kv_heads);
  const double kv = 2 * own_kv * tokens * a.degree(Axis::kContext) * kElement;
  all.context = {ExchangeKind::kAllGather, a[Axis::kContext], kv};
  all.context_scatter = {ExchangeKind::kReduceScatter, a[Axis::kContext], kv};
  all.context_times = (2 + again) * layers;
  all.context_scatter_times = layers;
  all.expert = {ExchangeKind::kAllToAll, a[Axis::kExpert], wide * model.experts_per_token / tensor};
  all.expert_times = model.experts > 0 ? (4 + 2 * again) * layers : 0;
  all.message = {ExchangeKind::kMessage, a[Axis::kPipeline], wide / tensor};
  const double outside = a.degree(Axis::kPipeline) == 1 ? 2 * model.embedding() : model.embedding();
  const ExchangeKind kind = a.zero == 0 ? ExchangeKind::kAllReduce : ExchangeKind::kReduceScatter;
  const double dense = (layers * model.dense_layer() + outside) / tensor;
  const double experts =
      layers * model.experts * model.expert() / (tensor * a.degree(Axis::kExpert));
  const Spread group = reduced_in_step(a, a.gradient_group());
  const Spread expert_group = reduced_in_step(a, a.expert_gradient_group());
  const double coded = a.codec == 0 ? 0 : job_.codecs[a.codec - 1].bytes_of_value;
  const bool is_coded = a.codec > 0 && a.outer_period == 0;
  const double gradient = is_coded ? coded : job_.gradient_bytes;
  all.gradients = {kind, group, dense * gradient};
  all.expert_gradients = {kind, expert_group, experts * gradient};
  const double weight = a.zero == 0 ? 0 : kElement;
  all.weights = {ExchangeKind::kAllGather, group, dense * weight};
  all.expert_weights = {ExchangeKind::kAllGather, expert_group, experts * weight};
  all.outer.bytes =
      a.outer_period == 0 ? 0 : (dense + experts) * (a.codec > 0 ? coded : kParameter);
  const size_t outermost = cluster_.levels.size() - 1;
  all.outer.group.at[outermost] = a[Axis::kData].at[outermost];
  return all;
}

std::vector<double> StepPricer::hops(const Arrangement& a, const TimeOf& time_of) const {
  GroupExchange message = exchanges(a).message;
  const Spread& stages = a[Axis::kPipeline];
  std::vector<double> by_level, hops;
  if (stages.degree() == 1) return hops;
  for (size_t level = 0; level < cluster_.levels.size(); ++level) {
    message.level = level;
    by_level.push_back(stages.at[level] > 1 ? time_of(message) : 0);
  }
  for (uint32_t next = 1; next < stages.degree(); ++next) {
    size_t level = 0;  // stages are numbered from the innermost level on
    while (next % stages.within(level) == 0) ++level;
    hops.push_back(by_level[level]);
  }
  return hops;
}

// A rank encodes what it sends and decodes what it receives: of a reduction all but its own share,
// and where all get the result as much again.
double StepPricer::coding_ns(const Arrangement& a, const GroupExchange& exchange) const {
  const double ranks = exchange.group.degree();
  if (a.codec == 0 || exchange.bytes == 0 || ranks == 1) return 0;
  const WireCodec& codec = job_.codecs[a.codec - 1];
  const double times = exchange.kind == ExchangeKind::kAllReduce ? 2 : 1;
  return times * (ranks - 1) / ranks * exchange.bytes / codec.bytes_of_value *
         codec.coding_ns_of_value;
}

// The part of a step: all wait for the exchange.
double StepPricer::outer_ns(const Arrangement& a, const TimeOf& time_of) const {
  const GroupExchange outer = exchanges(a).outer;
  if (outer.bytes == 0 || outer.group.degree() == 1) return 0;
  return (time_of(outer) + coding_ns(a, outer)) / a.outer_period;
}

double StepPricer::gradients_exposed(const Arrangement& a, double turn,
                                     const TimeOf& time_of) const {
  const StepExchanges all = exchanges(a);
  const auto time = [&](const GroupExchange& exchange) {
    return exchange.bytes == 0 || exchange.group.degree() == 1 ? 0 : time_of(exchange);
  };
  double reduce = time(all.gradients) + time(all.expert_gradients);
  if (a.outer_period == 0) {
    reduce += coding_ns(a, all.gradients) + coding_ns(a, all.expert_gradients);
  }
  const double gather = time(all.weights) + time(all.expert_weights);
  const double forward = job_.overlaps_gradients ? turn / 3 : 0;
  const double backward = job_.overlaps_gradients ? turn * 2 / 3 : 0;
  const auto beyond = [](double exchange, double hidden) {
    return std::max(0.0, exchange - hidden);
  };
  switch (a.zero) {
    case 0:
      return beyond(reduce, backward);
    case 1:
      return beyond(reduce, backward) + beyond(gather, forward);
    case 2:
      return a.micro_batches * beyond(reduce, backward) + beyond(gather, forward);
    default:
      return a.micro_batches * (beyond(gather, forward) + beyond(gather + reduce, backward));
  }
}

StepPrice StepPricer::price(const Arrangement& a, const KnownAxes& known, const TimeOf& placed,
                            const TimeOf& unplaced) const {
  const StepExchanges all = exchanges(a);
  const auto is_known = [&](Axis axis) { return known[static_cast<size_t>(axis)]; };
  std::array<double, kAxes> of_turn{};
  const auto add = [&](Axis axis, const GroupExchange& exchange, double times) {
    if (times == 0 || exchange.group.degree() == 1) return;
    const TimeOf& time_of = is_known(axis) ? placed : unplaced;
    of_turn[static_cast<size_t>(axis)] += times * time_of(exchange);
  };
  add(Axis::kTensor, all.tensor, all.tensor_times);
  add(Axis::kTensor, all.tensor_scatter, all.tensor_scatter_times);
  add(Axis::kContext, all.context, all.context_times);
  add(Axis::kContext, all.context_scatter, all.context_scatter_times);
  add(Axis::kExpert, all.expert, all.expert_times);
  PipelineTimes times{.turn = computing_ns(a)};
  StepPrice price;
  price.computing = times.turn * a.micro_batches;
  for (size_t i = 0; i < kAxes; ++i) {
    times.turn += of_turn[i];
    price.exposed[i] = of_turn[i] * a.micro_batches;
  }
  times.chunks = a.chunks;
  times.micro_batches = a.micro_batches;
  times.overlaps = job_.overlaps_messages;
  times.hops = hops(a, is_known(Axis::kPipeline) ? placed : unplaced);
  for (const double hop : times.hops) times.wrap = std::max(times.wrap, hop);
  const PipelineStep step = pipeline_step(times);
  price.bubble = step.bubble;
  price.exposed[static_cast<size_t>(Axis::kPipeline)] = step.exposed;
  const bool reduces = is_known(Axis::kData) && is_known(Axis::kContext) && is_known(Axis::kExpert);
  // Which of the ranks meet only in outer steps is not known before the axes are placed.
  double gradients = 0;
  if (reduces || a.outer_period == 0) {
    gradients = gradients_exposed(a, times.turn, reduces ? placed : unplaced);
  }
  if (reduces) gradients += outer_ns(a, placed);
  price.exposed[static_cast<size_t>(Axis::kData)] = gradients;
  price.ns = step.ns + gradients;
  return price;
}

double StepPricer::utilisation(const StepPrice& price) const {
  const TrainingModel& model = job_.model;
  const double tokens = 1.0 * model.batch * model.sequence;
  return tokens * model.flops_per_token() /
         (price.ns * job_.device.flops_per_ns * cluster_.places());
}

double pipeline_cut_bytes(double pipelines, double micro_batches, double bytes_of_border) {
  return pipelines * 2 * micro_batches * bytes_of_border;
}

double gradient_cut_bytes(double sites, double parameters, double bytes_of_value) {
  return 2 * (sites - 1) / sites * parameters * bytes_of_value;
}

}  // namespace tutti::arrange
