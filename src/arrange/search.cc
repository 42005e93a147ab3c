#include "src/arrange/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace tutti::arrange {
namespace {

std::vector<uint32_t> divisors(uint32_t number) {
  std::vector<uint32_t> found;
  for (uint32_t d = 1; d <= number; ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

template <class Value>
std::vector<Value> these_or(const std::optional<Value>& fixed, std::vector<Value> all) {
  return fixed ? std::vector<Value>{*fixed} : all;
}

// Goes through the degrees, then through the ways to cut a replica's batch, layers and state.
class Cutter {
 public:
  Cutter(const StepPricer& pricer, const FixedParts& fixed, std::vector<std::string>& refused)
      : pricer_(pricer),
        model_(pricer.job().model),
        fixed_(fixed),
        refused_(refused),
        divisors_(divisors(pricer.cluster().places())) {}

  std::vector<Arrangement> run() {
    Arrangement none;
    take_degree(0, pricer_.cluster().places(), none);
    std::vector<std::pair<uint64_t, std::string>> most;
    for (const auto& [why, count] : reasons_) most.emplace_back(count, why);
    std::stable_sort(most.begin(), most.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [count, why] : most) refused_.push_back(std::to_string(count) + ": " + why);
    return std::move(found_);
  }

 private:
  void take_degree(size_t axis, uint32_t left, Arrangement& cut) {
    const bool is_last = axis + 1 == kAxes;
    for (const uint32_t degree : divisors_) {
      if (degree > left) break;
      if (left % degree != 0 || (is_last && degree != left)) continue;
      if (fixed_.degrees[axis] && *fixed_.degrees[axis] != degree) continue;
      cut.axes[axis].at[0] = degree;
      // A degree that divides nothing is refused once, not for each of the rest.
      if (const std::string why = why_not_degree(axis, degree); !why.empty()) {
        ++reasons_[why];
        continue;
      }
      if (is_last) {
        take_micro_batch(cut);
      } else {
        take_degree(axis + 1, left / degree, cut);
      }
    }
    cut.axes[axis].at[0] = 1;
  }

  std::string why_not_degree(size_t axis, uint32_t degree) const {
    Arrangement alone;
    alone.axes[axis].at[0] = degree;
    if (static_cast<Axis>(axis) == Axis::kData || static_cast<Axis>(axis) == Axis::kExpert) {
      if (model_.batch % degree != 0) {
        return std::to_string(degree) + " replicas do not divide a batch of " +
               std::to_string(model_.batch);
      }
      alone.micro_batches = model_.batch / degree;
    } else {
      alone.micro_batches = model_.batch;
    }
    return pricer_.why_not(alone);
  }

  void take_micro_batch(Arrangement& cut) {
    const uint64_t replicas = uint64_t{cut.degree(Axis::kExpert)} * cut.degree(Axis::kData);
    if (model_.batch % replicas != 0) {
      ++reasons_["replicas do not divide a batch of " + std::to_string(model_.batch)];
      return;
    }
    const auto own = static_cast<uint32_t>(model_.batch / replicas);
    std::vector<uint32_t> powers;
    for (uint32_t size = 1; own % size == 0; size *= 2) powers.push_back(size);
    for (const uint32_t size : these_or(fixed_.micro_batch, powers)) {
      if (own % size != 0) continue;
      cut.micro_batch = size;
      cut.micro_batches = own / size;
      take_chunks(cut);
    }
  }

  void take_chunks(Arrangement& cut) {
    const uint32_t stages = cut.degree(Axis::kPipeline);
    std::vector<uint32_t> chunks = {1};
    for (uint32_t more = 2; stages > 1 && stages * more <= model_.layers; ++more) {
      chunks.push_back(more);
    }
    for (const uint32_t one : these_or(fixed_.chunks, chunks)) {
      cut.chunks = one;
      if (const std::string why = pricer_.why_not(cut); !why.empty()) {
        ++reasons_[why];
        continue;
      }
      take_state(cut);
    }
    cut.chunks = 1;
  }

  void take_state(Arrangement& cut) {
    const bool is_alone = cut.gradient_group().degree() == 1;
    const bool is_whole = cut.degree(Axis::kTensor) == 1;
    const std::vector<uint32_t> stages =
        is_alone ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, 1, 2, 3};
    const std::vector<bool> parts =
        is_whole ? std::vector<bool>{false} : std::vector<bool>{true, false};
    for (const uint32_t zero : these_or(fixed_.zero, stages)) {
      for (const bool recomputed : these_or(fixed_.recomputed, {false, true})) {
        for (const bool divided : these_or(fixed_.sequence_parallel, parts)) {
          cut.zero = zero;
          cut.recomputed = recomputed;
          cut.sequence_parallel = divided;
          take_exchanges(cut);
        }
      }
    }
  }

  void take_exchanges(Arrangement& cut) {
    const TrainingJob& job = pricer_.job();
    const bool exchanges = cut.degree(Axis::kData) > 1;
    std::vector<uint32_t> codecs = {0}, periods = {0};
    for (uint32_t i = 1; exchanges && i <= job.codecs.size(); ++i) codecs.push_back(i);
    // Of a cluster of one level nothing would be left that reduces gradients in every step.
    if (exchanges && pricer_.cluster().levels.size() > 1) {
      periods.insert(periods.end(), job.outer_periods.begin(), job.outer_periods.end());
    }
    for (const uint32_t period : these_or(fixed_.outer_period, periods)) {
      for (const uint32_t codec : these_or(fixed_.codec, codecs)) {
        cut.outer_period = period;
        cut.codec = codec;
        take(cut);
      }
    }
    cut.outer_period = cut.codec = 0;
  }

  void take(const Arrangement& cut) {
    if (pricer_.memory(cut) <= pricer_.job().device.memory) {
      found_.push_back(cut);
    } else {
      ++reasons_["they do not fit the memory of a device"];
    }
  }

  const StepPricer& pricer_;
  const TrainingModel& model_;
  const FixedParts& fixed_;
  std::vector<std::string>& refused_;
  const std::vector<uint32_t> divisors_;
  std::vector<Arrangement> found_;
  std::map<std::string, uint64_t> reasons_;
};

// Places one axis after the other, level by level, and asks before each further axis whether it is
// worth while.
class Placer {
 public:
  using GoOn = std::function<bool(const Arrangement&, const KnownAxes&)>;

  Placer(const Arrangement& cut, const EvenCluster& cluster, GoOn go_on)
      : cut_(cut), cluster_(cluster), go_on_(std::move(go_on)), now_(cut) {
    for (const ClusterLevel& level : cluster.levels) left_.push_back(level.size);
  }

  void run() { begin(0); }

 private:
  // Axes that are not placed yet keep their degrees, by which the step is cut.
  void begin(size_t axis) {
    now_.axes[axis] = Spread();
    place(axis, 0, cut_.axes[axis].at[0]);
    now_.axes[axis] = cut_.axes[axis];
  }

  void place(size_t axis, size_t level, uint32_t degree) {
    if (level == left_.size()) {
      if (degree == 1) finish(axis);
      return;
    }
    // Larger factors first: inner levels are the fastest.
    for (uint32_t factor = std::min(degree, left_[level]); factor >= 1; --factor) {
      if (degree % factor != 0 || left_[level] % factor != 0) continue;
      left_[level] /= factor;
      now_.axes[axis].at[level] = factor;
      place(axis, level + 1, degree / factor);
      now_.axes[axis].at[level] = 1;
      left_[level] *= factor;
    }
  }

  void finish(size_t axis) {
    known_[axis] = true;
    if (go_on_(now_, known_) && axis + 1 < kAxes) {
      if (axis + 2 < kAxes) {
        begin(axis + 1);
      } else {  // the last axis has what is left
        now_.axes[axis + 1] = Spread();
        for (size_t level = 0; level < left_.size(); ++level) {
          now_.axes[axis + 1].at[level] = left_[level];
        }
        known_[axis + 1] = true;
        go_on_(now_, known_);
        known_[axis + 1] = false;
        now_.axes[axis + 1] = cut_.axes[axis + 1];
      }
    }
    known_[axis] = false;
  }

  const Arrangement& cut_;
  const EvenCluster& cluster_;
  const GoOn go_on_;
  Arrangement now_;
  KnownAxes known_{};
  std::vector<uint32_t> left_;  // by level
};

class Search {
 public:
  Search(const StepPricer& pricer, ExchangePrices& prices, const SearchLimits& limits)
      : pricer_(pricer),
        prices_(prices),
        limits_(limits),
        best_(limits.keep, pricer.cluster().levels.size() - 1) {}

  ArrangementSearch run(std::vector<Arrangement> cuts) {
    std::vector<std::pair<double, const Arrangement*>> order;
    for (const Arrangement& cut : cuts) {
      order.emplace_back(pricer_.price(cut, {}, least_, cheapest_).ns, &cut);
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    });
    for (const auto& [least, cut] : order) {
      if (least > best_.limit() || !result_.is_complete) break;
      place(*cut);
    }
    result_.best = best_.all();
    result_.cuts = cuts.size();
    return std::move(result_);
  }

 private:
  void place(const Arrangement& cut) {
    const auto go_on = [&](const Arrangement& placed, const KnownAxes& known) {
      if (is_over() || pricer_.price(placed, known, least_, cheapest_).ns > best_.limit()) {
        return false;
      }
      if (known != kAllAxes) return true;
      if (!pricer_.why_not_placed(placed).empty()) return false;
      ++result_.priced;
      best_.offer({placed, pricer_.price(placed, exact_), pricer_.memory(placed)});
      return true;
    };
    Placer(cut, pricer_.cluster(), go_on).run();
  }

  // The first is priced whatever the time, so that there is an answer.
  bool is_over() {
    constexpr uint64_t kSeldom = 64;
    if (result_.is_complete && !best_.all().empty() && ++asked_ % kSeldom == 0) {
      result_.is_complete = !limits_.is_over();
    }
    return !result_.is_complete;
  }

  // The least that an exchange of so many ranks can take, wherever they are.
  double cheapest_ns(const GroupExchange& exchange) {
    if (exchange.kind == ExchangeKind::kMessage) return prices_.least_ns(exchange);
    const uint32_t degree = exchange.group.degree();
    GroupExchange key = exchange;
    key.group = Spread();
    key.group.at[0] = degree;
    return remembered(cheapest_known_, key, [&] {
      double least = std::numeric_limits<double>::infinity();
      for (const Spread& group : spreads_of(degree)) {
        key.group = group;
        least = std::min(least, prices_.least_ns(key));
      }
      return least;
    });
  }

  const std::vector<Spread>& spreads_of(uint32_t degree) {
    const auto known = spreads_.find(degree);
    if (known != spreads_.end()) return known->second;
    std::vector<Spread>& spreads = spreads_[degree];
    Arrangement cut;
    cut.axes[0].at[0] = degree;
    cut.axes[kAxes - 1].at[0] = pricer_.cluster().places() / degree;
    for_each_placement(cut, pricer_.cluster(),
                       [&](const Arrangement& placed) { spreads.push_back(placed.axes[0]); });
    return spreads;
  }

  template <class Make>
  double remembered(std::map<GroupExchange, double>& known, const GroupExchange& exchange,
                    Make make) {
    const auto found = known.find(exchange);
    if (found != known.end()) return found->second;
    return known.emplace(exchange, make()).first->second;
  }

  const StepPricer& pricer_;
  ExchangePrices& prices_;
  const SearchLimits& limits_;
  BestArrangements best_;
  const StepPricer::TimeOf least_ = [this](const GroupExchange& exchange) {
    return prices_.least_ns(exchange);
  };
  const StepPricer::TimeOf cheapest_ = [this](const GroupExchange& exchange) {
    return cheapest_ns(exchange);
  };
  const StepPricer::TimeOf exact_ = [this](const GroupExchange& exchange) {
    return remembered(known_, exchange, [&] { return prices_.ns(exchange); });
  };
  std::map<GroupExchange, double> known_, cheapest_known_;
  std::map<uint32_t, std::vector<Spread>> spreads_;
  ArrangementSearch result_;
  uint64_t asked_ = 0;
};

}  // namespace

BestArrangements::Kind BestArrangements::kind_of(const Arrangement& arrangement) const {
  Kind kind{};
  for (size_t i = 0; i < kAxes; ++i) {
    kind[i] = arrangement.axes[i].degree();
    kind[kAxes + i] = arrangement.axes[i].at[outermost_];
  }
  kind[2 * kAxes] = arrangement.codec;
  kind[2 * kAxes + 1] = arrangement.outer_period;
  return kind;
}

double BestArrangements::limit() const {
  return best_.size() < keep_ ? std::numeric_limits<double>::infinity() : best_.back().price.ns;
}

void BestArrangements::offer(const Arranged& one) {
  const auto order = [](const Arranged& a, const Arranged& b) {
    return std::tie(a.price.ns, a.arrangement) < std::tie(b.price.ns, b.arrangement);
  };
  const Kind kind = kind_of(one.arrangement);
  const auto same = std::find_if(best_.begin(), best_.end(), [&](const Arranged& other) {
    return kind_of(other.arrangement) == kind;
  });
  if (same != best_.end()) {
    if (!order(one, *same)) return;
    best_.erase(same);
  }
  best_.insert(std::upper_bound(best_.begin(), best_.end(), one, order), one);
  if (best_.size() > keep_) best_.pop_back();
}

std::vector<Arrangement> ways_to_cut(const StepPricer& pricer, const FixedParts& fixed,
                                     std::vector<std::string>& refused) {
  return Cutter(pricer, fixed, refused).run();
}

void for_each_placement(const Arrangement& cut, const EvenCluster& cluster,
                        const std::function<void(const Arrangement&)>& found) {
  Placer(cut, cluster, [&](const Arrangement& placed, const KnownAxes& known) {
    if (known == kAllAxes) found(placed);
    return true;
  }).run();
}

Result<ArrangementSearch> search_arrangements(const StepPricer& pricer, ExchangePrices& prices,
                                              const FixedParts& fixed, const SearchLimits& limits) {
  const TrainingJob& job = pricer.job();
  for (const Status& status :
       {check(job.model), check(job.device, job.model), check(pricer.cluster())}) {
    if (!status.ok()) return status;
  }
  if (limits.keep == 0) return Status::invalid_argument("0 arrangements are to be kept");
  std::vector<std::string> refused;
  std::vector<Arrangement> cuts = ways_to_cut(pricer, fixed, refused);
  if (cuts.empty()) {
    std::string text =
        "no arrangement of " + std::to_string(pricer.cluster().places()) + " places is possible:";
    for (const std::string& why : refused) text += "\n  " + why;
    return Status::unsupported(text);
  }
  ArrangementSearch result = Search(pricer, prices, limits).run(std::move(cuts));
  result.refused = std::move(refused);
  return result;
}

}  // namespace tutti::arrange
