// Values of bags between the ranks that have shards and those that have samples, and which bags
// move when.
//
// Owns: the buffers of a transfer, from begin() to end(). Threads: one at a time. Errors: throws.
#pragma once

#include <cstdint>
#include <vector>

#include "src/runtime/embedding/id_exchange.h"
#include "src/runtime/embedding/wire.h"

namespace tutti::runtime {

/// When a bag's values move. Empty bags have none.
enum class BagClass : uint8_t { kEmpty = 0, kUrgent = 1, kBehind = 2 };

/// By shard: of this rank's samples, and of all samples where the shard is this rank's.
struct BagClasses {
  std::vector<std::vector<BagClass>> of_samples;
  std::vector<std::vector<BagClass>> of_shards;
};

/// By shard: rows of as many values as it has columns.
using ShardValues = std::vector<std::vector<float>>;

enum class ValueWay { kToSamples, kToShards };

/// A communicator, a HOST stream or the BLOCKING one, and a priority.
struct ValueLine {
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream = tuttiBlocking();
  int priority = 0;
};

/// Everything that both ends of an exchange of values know.
struct ValueParties {
  const EmbeddingPlace* place = nullptr;
  const TablePlan* plan = nullptr;
  const BatchIds* ids = nullptr;
  const BagClasses* classes = nullptr;
};

/// Which values move where, and as what.
struct ValueMove {
  ValueWay way = ValueWay::kToSamples;
  BagClass which = BagClass::kUrgent;
  const EmbeddingWire* wire = nullptr;  // outlives the transfer
};

class ValueTransfer {
 public:
  ValueTransfer() = default;
  /// Waits for what is under way: it uses the buffers.
  ~ValueTransfer();
  ValueTransfer(const ValueTransfer&) = delete;
  ValueTransfer& operator=(const ValueTransfer&) = delete;

  /// Packs the bags of this class and begins the exchange. Ranks ask each other first where the
  /// wire may refuse values.
  void begin(const ValueParties& parties, const ValueMove& move, const ShardValues& from,
             const ValueLine& line);
  /// Waits, and writes what has arrived to its rows of `to`, which have the size of all bags.
  void end(ShardValues& to);
  Bytes sent() const { return Bytes(static_cast<int64_t>(send_.size())); }

 private:
  void agree(const std::vector<float>& values) const;
  void submit(const ValueLine& line);

  ValueParties parties_;
  ValueMove move_;
  tuttiRequest_t request_ = nullptr;
  std::vector<size_t> send_counts_, recv_counts_;  // values to and from each rank
  std::vector<std::byte> send_, recv_;
};

/// Every bag with ids is urgent.
BagClasses all_urgent(const TablePlan& plan, const BatchIds& ids, int rank);
/// Tells the ranks of samples what the ranks of shards have decided.
void tell_classes(const ValueParties& parties, BagClasses& classes);

}  // namespace tutti::runtime
