// Embedding tables that are sharded over ranks: lookups, gradients and the exact update of rows
// (ZionEX, arXiv:2104.05158), and the next step's lookups beside this step's update (FreeScale,
// arXiv:2604.24073).
//
//     forward(bags) -> pooled ... backward(gradients)            one step after the other, or
//     forward(bags), then each step: prefetch(next) ... backward(gradients), finish(pooled)
//
// A bag is the ids of one sample in one table; its values are summed, or averaged. Each shard sums
// the rows that it has of a bag in the order of the bag; the sums of a table's row shards are added
// in the order of their rows. Every value passes the wire's type, also where it stays on its rank.
// So results depend on the cuts of the plan, and neither on ranks nor on times: the same plan on
// fewer ranks (on_fewer_ranks) and the batches joined in rank order give the same bits.
//
// prefetch() sends the ids of the next batch. Each shard then knows which rows both batches touch:
// its collision rows. Bags without one are looked up at once and sent behind other work. backward()
// sends the gradients of bags with such rows first, updates these rows, and sends their bags of the
// next batch, all with priority; the other gradients and rows follow. Every row is read after its
// update and updated once with all its gradients: finish() gives what forward() would.
//
// Exact: update, wire types, collision-first order. Ours: pooling before the exchange with bags as
// its unit (the paper exchanges rows; bags of one id are rows), empty bags are not sent, the cache
// is a RowStore. A hierarchical exchange is the library's affair: tuttiAllToAllV() has one.
//
// Units:    ids count from 0 in each table; pooled values and gradients are fp32, samples * width.
// Memory:   of the host.
// Owns:     rows, two communicators split from the caller's, two HOST streams. The caller's must
//           live longer. Arrays of bags, values and gradients are the caller's, and are read or
//           written during the call alone.
// Ordering: every call but the accessors is made by all ranks, in the same order.
// Threads:  one at a time; calls wait for other ranks.
// Errors:   throws Error. Ids that one rank is refused are refused on all, before any row moves,
//           and the tables stay usable. Wrong sizes of values are refused on the rank that passes
//           them before anything is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tutti/runtime/sparse_update.h"
#include "tutti/runtime/table_sharding.h"

namespace tutti::runtime {

/// The ids of this rank's samples in one table: those of sample s are ids[offsets[s]] ..
/// ids[offsets[s + 1]]. There is one offset more than samples.
struct Bags {
  std::span<const int64_t> ids;
  std::span<const int64_t> offsets;
};

enum class Pooling { kSum, kMean };

struct EmbeddingSpec {
  TablePlan plan;
  Pooling pooling = Pooling::kSum;
  tuttiDataType_t forward_wire = tuttiBfloat16;  // float32, bfloat16 or float16
  tuttiDataType_t backward_wire = tuttiFloat32;  // likewise
  bool saturate = false;  // values beyond float16 become its largest; else they are refused
  std::shared_ptr<const RowOptimizer> optimizer;
  /// Makes the store of a shard of this rank: rows of the shard with so many values each. Empty:
  /// MemoryRows.
  std::function<std::shared_ptr<RowStore>(const TableShard& shard, int64_t stride)> store;
};

struct EmbeddingCounters {
  int64_t collision_rows = 0;  // of this rank's shards, of all prefetches
  int64_t next_rows = 0;       // rows of the prefetched batches, collision rows among them
  Bytes urgent{0};             // values and gradients that somebody waits for, sent by this rank
  Bytes behind{0};             // those that other work hides
};

class TUTTI_RUNTIME_API EmbeddingTables {
 public:
  /// Collective.
  EmbeddingTables(tuttiComm_t comm, EmbeddingSpec spec);
  ~EmbeddingTables();
  EmbeddingTables(const EmbeddingTables&) = delete;
  EmbeddingTables& operator=(const EmbeddingTables&) = delete;

  const TablePlan& plan() const;

  /// Looks up one batch: bags and arrays of samples * width values for each table. A batch that is
  /// not followed by backward() changes no row.
  void forward(std::span<const Bags> bags, std::span<const std::span<float>> pooled);
  /// Updates the rows of the last batch by the gradients of its pooled values.
  void backward(std::span<const std::span<const float>> gradients);

  /// Begins the lookups of the next batch, before backward() of the last one.
  void prefetch(std::span<const Bags> bags);
  /// Ends the update of the last batch and gives the prefetched one's values.
  void finish(std::span<const std::span<float>> pooled);
  /// Rows that a shard of this rank has in both batches, ascending, counted in their table.
  std::vector<int64_t> collisions(int shard) const;

  /// Takes this rank's shards of a table out of all its values, rows * width, or writes them there.
  /// They involve no other rank. States of rows become zeros.
  void load(int table, std::span<const float> values);
  void save(int table, std::span<float> values) const;
  /// The rows of a shard of this rank.
  RowStore& store(int shard);
  const EmbeddingCounters& counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
