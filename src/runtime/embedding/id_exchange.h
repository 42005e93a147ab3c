// The ids of one batch, brought to the ranks whose shards have their rows.
//
// Threads: as the communicator. Errors: throws Error on all ranks where one rank's ids are refused.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/embedding.h"

namespace tutti::runtime {

struct EmbeddingPlace {
  tuttiComm_t comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

/// Bags one after the other.
struct BagList {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> ids;
  int64_t bags() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::span<const int64_t> of(int64_t bag) const {
    const auto index = static_cast<size_t>(bag);
    return std::span(ids).subspan(static_cast<size_t>(offsets[index]),
                                  static_cast<size_t>(offsets[index + 1] - offsets[index]));
  }
};

struct BatchIds {
  int64_t samples = 0;                            // of this rank
  std::vector<int64_t> first_sample;              // of each rank among all samples, and the end
  std::vector<std::vector<int64_t>> bag_sizes;    // by table and own sample
  std::vector<std::vector<int64_t>> shard_sizes;  // by shard and own sample: what it has of the bag
  std::vector<BagList> arrived;  // by shard: bags of all samples; empty for shards of others

  int64_t all_samples() const { return first_sample.back(); }
};

/// `also` may refuse the batch, of so many samples, for other reasons.
BatchIds exchange_ids(const EmbeddingPlace& place, const TablePlan& plan,
                      std::span<const Bags> bags, const std::function<void(int64_t)>& also);

}  // namespace tutti::runtime
