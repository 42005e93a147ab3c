// The prices of a step's exchanges by the library itself: the algorithm that selection would take
// for a group on its share of the links, by its prediction, or simulated message by message.
//
// A group on the cluster is a network of its own: its factors are the levels' sizes, and each link
// is its share of the cluster's link, since all groups of an axis exchange at the same time. Groups
// with equal factors are one class, and each (collective, bytes, class) is asked about once.
//
// Owns: what it has asked. Threads: one at a time. Units: nanoseconds, bytes. Errors: none for
// prices; simulate() says why it could not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "src/arrange/prices.h"
#include "src/plan/bind.h"
#include "src/schedule/algorithm.h"
#include "src/select/select.h"
#include "src/sim/costs.h"
#include "src/sim/network.h"
#include "src/sim/program.h"

namespace tutti::arrange {

/// Predictions of selection by what a simulation is told.
select::Model selection_model(const sim::Costs& costs);

/// A device's copies within a host run at the rate of its port there.
sim::Costs device_costs(const EvenCluster& cluster);

class LibraryPrices : public ExchangePrices {
 public:
  /// `algorithms` outlive it. `ring_bytes`: TUTTI_RING_BYTES of the job.
  LibraryPrices(EvenCluster cluster, std::span<const schedule::Algorithm> algorithms,
                const sim::Costs& costs, uint64_t ring_bytes);
  ~LibraryPrices() override;

  double ns(const GroupExchange& exchange) override;
  double least_ns(const GroupExchange& exchange) override;
  /// "hierarchical_one_shot:3", or why there is none.
  std::string algorithm_of(const GroupExchange& exchange);
  /// As it would run, contention of the group's own messages included. Of more than 128 MiB the
  /// time follows from two shorter calls.
  Result<double> simulate(const GroupExchange& exchange);

 private:
  struct GroupClass;

  GroupClass& class_of(const Spread& group);
  Result<select::Candidate> choose(const GroupExchange& exchange);
  Result<double> simulate(const GroupExchange& exchange, const select::Candidate& candidate);
  sim::Job job_of(const GroupExchange& exchange, const select::Candidate& candidate) const;
  double message_ns(const GroupExchange& exchange) const;
  uint64_t count_of(const GroupExchange& exchange) const;

  IdealPrices ideal_;
  std::span<const schedule::Algorithm> algorithms_;
  sim::Costs costs_;
  plan::Tuning tuning_;
  std::map<Spread, std::unique_ptr<GroupClass>> classes_;
};

/// Prices that are simulated, as far as that is possible and as long as there is time; else those
/// of the library's model.
class SimulatedPrices : public ExchangePrices {
 public:
  SimulatedPrices(LibraryPrices& model, std::function<bool()> is_over)
      : model_(model), is_over_(std::move(is_over)) {}
  double ns(const GroupExchange& exchange) override;
  double least_ns(const GroupExchange& exchange) override { return model_.least_ns(exchange); }
  /// How many of the last arrangement's exchanges were not simulated, and why the last was not.
  uint32_t predicted() const { return predicted_; }
  const std::string& why() const { return why_; }
  void begin_arrangement() { predicted_ = 0; }

 private:
  struct PricedExchange {
    double ns = 0;
    std::string why;  // not simulated
  };

  LibraryPrices& model_;
  const std::function<bool()> is_over_;
  std::map<GroupExchange, PricedExchange> known_;
  uint32_t predicted_ = 0;
  std::string why_;
};

}  // namespace tutti::arrange
