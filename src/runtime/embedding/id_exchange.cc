#include "src/runtime/embedding/id_exchange.h"

#include <exception>
#include <functional>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_bags(const EmbeddingTable& table, const Bags& bags, size_t offsets) {
  require(!bags.offsets.empty() && bags.offsets.size() == offsets, "table '", table.name, "' has ",
          bags.offsets.size(), " offsets and the first table ", offsets,
          "; give every table one for each sample and one more");
  require(bags.offsets.front() == 0 && bags.offsets.back() == std::ssize(bags.ids), "table '",
          table.name, "' has offsets from ", bags.offsets.front(), " to ", bags.offsets.back(),
          " and ", bags.ids.size(), " ids; begin at 0 and end at the number of ids");
  for (size_t s = 1; s < bags.offsets.size(); ++s) {
    require(bags.offsets[s - 1] <= bags.offsets[s], "offset ", s, " of table '", table.name,
            "' is ", bags.offsets[s], ", below the one before it");
  }
  for (const int64_t id : bags.ids) {
    require(id >= 0 && id < table.rows, "table '", table.name, "' is asked for row ", id,
            " and has rows 0 to ", table.rows - 1);
  }
}

void check_batch(const TablePlan& plan, std::span<const Bags> bags) {
  require(bags.size() == plan.tables.size(), bags.size(), " tables of ids for ", plan.tables.size(),
          " tables; give one a table, with empty bags where there are none");
  for (size_t t = 0; t < bags.size(); ++t) {
    check_bags(plan.tables[t], bags[t], bags[0].offsets.size());
  }
}

/// The questions of this rank to each: for each of its shards the sizes of bags, and then their
/// ids.
std::vector<std::vector<int64_t>> words_to_ranks(const TablePlan& plan, std::span<const Bags> bags,
                                                 BatchIds& batch) {
  std::vector<std::vector<int64_t>> words(at(plan.ranks));
  for (const TableShard& shard : plan.shards) {
    const Bags& of_table = bags[at(shard.table)];
    std::vector<int64_t> sizes, ids;
    for (int64_t s = 0; s < batch.samples; ++s) {
      const size_t before = ids.size();
      for (int64_t i = of_table.offsets[at(s)]; i < of_table.offsets[at(s + 1)]; ++i) {
        const int64_t id = of_table.ids[at(i)];
        if (id >= shard.row_begin && id < shard.row_end) ids.push_back(id);
      }
      sizes.push_back(static_cast<int64_t>(ids.size() - before));
    }
    auto& target = words[at(shard.rank)];
    target.insert(target.end(), sizes.begin(), sizes.end());
    target.insert(target.end(), ids.begin(), ids.end());
    batch.shard_sizes.push_back(std::move(sizes));
  }
  return words;
}

constexpr size_t kHeadWords = 2;  // samples, words that follow
constexpr int64_t kRefused = -1;

std::vector<int64_t> exchange_heads(const EmbeddingPlace& place, int64_t samples,
                                    const std::vector<std::vector<int64_t>>& words) {
  std::vector<int64_t> heads, arrived(kHeadWords * at(place.ranks));
  for (int r = 0; r < place.ranks; ++r) {
    heads.push_back(samples);
    heads.push_back(words.empty() ? 0 : std::ssize(words[at(r)]));
  }
  expect_success(tuttiAllToAll(heads.data(), arrived.data(), kHeadWords, tuttiInt64, place.comm,
                               tuttiBlocking()),
                 place.comm, "the exchange of the numbers of ids");
  return arrived;
}

/// Joins what ranks ask of this one's shards, in rank order.
void sort_arrivals(const EmbeddingPlace& place, const TablePlan& plan,
                   const std::vector<int64_t>& words, BatchIds& batch) {
  batch.arrived.resize(plan.shards.size());
  size_t next = 0;
  for (int r = 0; r < place.ranks; ++r) {
    const int64_t samples = batch.first_sample[at(r + 1)] - batch.first_sample[at(r)];
    for (size_t s = 0; s < plan.shards.size(); ++s) {
      if (plan.shards[s].rank != place.rank) continue;
      BagList& list = batch.arrived[s];
      for (int64_t i = 0; i < samples; ++i) {
        list.offsets.push_back(list.offsets.back() + words[next++]);
      }
      const int64_t ids = list.offsets.back() - std::ssize(list.ids);
      list.ids.insert(list.ids.end(), words.begin() + static_cast<int64_t>(next),
                      words.begin() + static_cast<int64_t>(next) + ids);
      next += at(ids);
    }
  }
}

}  // namespace

BatchIds exchange_ids(const EmbeddingPlace& place, const TablePlan& plan,
                      std::span<const Bags> bags, const std::function<void(int64_t)>& also) {
  BatchIds batch;
  std::vector<std::vector<int64_t>> words;
  std::exception_ptr refusal;
  try {
    check_batch(plan, bags);
    batch.samples = std::ssize(bags[0].offsets) - 1;
    also(batch.samples);
    for (const Bags& of_table : bags) {
      auto& sizes = batch.bag_sizes.emplace_back(at(batch.samples));
      for (size_t s = 0; s < sizes.size(); ++s) {
        sizes[s] = of_table.offsets[s + 1] - of_table.offsets[s];
      }
    }
    words = words_to_ranks(plan, bags, batch);
  } catch (const Error&) {
    refusal = std::current_exception();  // the others must hear of it before this rank leaves
  }
  const auto heads = exchange_heads(place, refusal ? kRefused : batch.samples, words);
  if (refusal) std::rethrow_exception(refusal);
  std::vector<size_t> sent, received;
  std::vector<int64_t> joined;
  batch.first_sample.assign(1, 0);
  for (int r = 0; r < place.ranks; ++r) {
    const int64_t samples = heads[kHeadWords * at(r)];
    require(samples != kRefused, "the ids of rank ", r,
            " were refused, and its error says why; nothing was looked up");
    batch.first_sample.push_back(batch.first_sample.back() + samples);
    received.push_back(at(heads[kHeadWords * at(r) + 1]));
    sent.push_back(words[at(r)].size());
    joined.insert(joined.end(), words[at(r)].begin(), words[at(r)].end());
  }
  std::vector<int64_t> arrived(std::accumulate(received.begin(), received.end(), size_t{0}));
  expect_success(tuttiAllToAllV(joined.data(), sent.data(), nullptr, arrived.data(),
                                received.data(), nullptr, tuttiInt64, place.comm, tuttiBlocking()),
                 place.comm, "the exchange of ids");
  sort_arrivals(place, plan, arrived, batch);
  return batch;
}

}  // namespace tutti::runtime
