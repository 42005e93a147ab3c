// The costs of the exchanges of a step: an interface of the search, and the ideal that bounds all.
//
// All groups of an axis exchange at the same time, so the ranks of a node share its link: a group
// with g ranks in a node of N has g / N of the link.
//
// Owns: nothing. Threads: one at a time. Units: nanoseconds, bytes. Errors: none.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

#include "src/arrange/arrangement.h"
#include "src/arrange/cluster.h"

namespace tutti::arrange {

enum class ExchangeKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kMessage };
const char* name_of(ExchangeKind kind);

struct GroupExchange {
  ExchangeKind kind = ExchangeKind::kAllReduce;
  Spread group;
  /// Of the whole buffer: as much as an all_gather leaves at each rank, and a reduce_scatter or
  /// all_to_all takes from each; of a message all of it.
  double bytes = 0;
  size_t level = 0;  // of a message: the innermost level that holds both ends
  auto operator<=>(const GroupExchange&) const = default;
};

/// Bytes per nanosecond of the link by which a group's ranks in one child of this level leave it.
double share_of_link(const EvenCluster& cluster, const Spread& group, size_t level);
/// How long the busiest of a group's links needs for the least that it must carry.
/// `part_of_level_0`: how much of that the links of the innermost level carry.
double busiest_link_ns(const EvenCluster& cluster, const GroupExchange& exchange,
                       double part_of_level_0);

class ExchangePrices {
 public:
  virtual ~ExchangePrices() = default;
  virtual double ns(const GroupExchange& exchange) = 0;
  /// Never above ns(), and quick: it is asked about much more often.
  virtual double least_ns(const GroupExchange& exchange) = 0;
};

/// Every link carries the least that it must, at its full rate, and one latency is waited for: two
/// for an all_reduce.
class IdealPrices : public ExchangePrices {
 public:
  explicit IdealPrices(EvenCluster cluster) : cluster_(std::move(cluster)) {}
  double ns(const GroupExchange& exchange) override;
  double least_ns(const GroupExchange& exchange) override { return ns(exchange); }
  const EvenCluster& cluster() const { return cluster_; }

 private:
  EvenCluster cluster_;
};

}  // namespace tutti::arrange
