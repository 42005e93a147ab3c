#include <algorithm>
#include <iterator>
#include <utility>

#include "src/runtime/embedding/value_exchange.h"
#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/embedding.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

/// A batch between its lookup and its update.
struct Batch {
  BatchIds ids;
  BagClasses classes;
  ShardValues at_samples;  // of this rank's samples, by shard: pooled, then gradients
  ShardValues at_shards;   // of all samples, for shards of this rank
};

/// Communicators and streams for what runs beside the caller: one for what somebody waits for, one
/// for what other work hides.
class Lines {
 public:
  explicit Lines(const EmbeddingPlace& place) {
    try {
      for (ValueLine* line : {&urgent, &behind}) {
        expect_success(tuttiCommSplit(place.comm, 0, place.rank, &line->comm, nullptr), place.comm,
                       "the split of a communicator for embeddings");
        expect_success(tuttiStreamCreate(&line->stream), "tuttiStreamCreate");
      }
    } catch (...) {
      close();
      throw;
    }
    urgent.priority = 1;
  }
  ~Lines() { close(); }
  /// Ends what runs on them, without the other ranks.
  void abort() {
    for (ValueLine* line : {&urgent, &behind}) tuttiCommAbort(std::exchange(line->comm, nullptr));
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  ValueLine urgent, behind;

 private:
  void close() {
    for (ValueLine* line : {&urgent, &behind}) {
      if (line->stream.handle != nullptr) tuttiStreamDestroy(line->stream);
      if (line->comm != nullptr) tuttiCommDestroy(line->comm);
    }
  }
};

std::vector<int64_t> distinct(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

bool has(const std::vector<int64_t>& sorted, int64_t row) {
  return std::binary_search(sorted.begin(), sorted.end(), row);
}

}  // namespace

class EmbeddingTables::Impl {
 public:
  Impl(tuttiComm_t comm, EmbeddingSpec given)
      : spec(checked(std::move(given))),
        forward_wire(spec.forward_wire, spec.saturate, "forward"),
        backward_wire(spec.backward_wire, spec.saturate, "backward"),
        place(place_of(comm, spec.plan)),
        lines(place) {
    for (const TableShard& shard : spec.plan.shards) {
      stores.push_back(shard.rank == place.rank ? make_store(shard) : nullptr);
    }
    collisions.resize(spec.plan.shards.size());
  }

  ~Impl() {
    // The others may never come to what this rank leaves in the middle of a step.
    if (has_failed || next != nullptr) lines.abort();
  }

  /// A call that fails behind its checks leaves rows that nobody can go on with.
  template <class Work>
  void attempt(Work work) {
    try {
      work();
    } catch (...) {
      has_failed = true;
      throw;
    }
  }
  void expect_whole() const {
    require(!has_failed,
            "an earlier call failed in the middle of a step, so rows may be updated in "
            "part; make the tables again, from a checkpoint");
  }

  void expect_own(int shard) const {
    require(shard >= 0 && shard < std::ssize(stores) && stores[at(shard)] != nullptr, "shard ",
            shard, " is not one of this rank's");
  }

  static EmbeddingSpec checked(EmbeddingSpec spec) {
    check_tables(spec.plan);
    require(spec.optimizer != nullptr, "there is no optimizer; give row_sgd() or another one");
    return spec;
  }
  EmbeddingPlace place_of(tuttiComm_t comm, const TablePlan& plan) const {
    EmbeddingPlace made{comm, 0, 1};
    expect_success(tuttiCommCount(comm, &made.ranks), comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(comm, &made.rank), comm, "tuttiCommUserRank");
    require(plan.ranks == made.ranks, "the plan is for ", plan.ranks,
            " ranks and the communicator has ", made.ranks);
    Fingerprint print;
    print.add(static_cast<int64_t>(runtime::fingerprint(plan)));
    for (const int64_t number :
         {static_cast<int64_t>(spec.pooling), static_cast<int64_t>(spec.forward_wire),
          static_cast<int64_t>(spec.backward_wire), int64_t{spec.saturate}}) {
      print.add(number);
    }
    agree(comm, print.value(), "the plan of embedding tables");
    return made;
  }

  int64_t stride(const TableShard& shard) const {
    return shard.columns() + spec.optimizer->state_of_row();
  }
  std::shared_ptr<RowStore> make_store(const TableShard& shard) const {
    if (!spec.store) return std::make_shared<MemoryRows>(shard.rows(), stride(shard));
    std::shared_ptr<RowStore> made = spec.store(shard, stride(shard));
    require(made != nullptr && made->rows() == shard.rows() && made->stride() == stride(shard),
            "the store of a shard of table '", spec.plan.tables[at(shard.table)].name,
            "' must have ", shard.rows(), " rows of ", stride(shard), " values");
    return made;
  }

  template <class Visit>
  void for_own(Visit visit) const {
    for (size_t s = 0; s < spec.plan.shards.size(); ++s) {
      if (stores[s] != nullptr) visit(s, spec.plan.shards[s]);
    }
  }

  ValueParties parties(const Batch& batch) const {
    return {&place, &spec.plan, &batch.ids, &batch.classes};
  }
  void make_room(Batch& batch) const;
  void check_values(std::span<const int64_t> sizes, int64_t samples, const char* what) const;
  void look_up(Batch& batch, BagClass which);
  void combine(const Batch& batch, std::span<const std::span<float>> pooled) const;
  void split_gradients(std::span<const std::span<const float>> gradients);
  void find_collisions();
  void update(bool collide);
  void update_plainly();
  void update_first();
  void update_rest();

  EmbeddingSpec spec;
  EmbeddingWire forward_wire, backward_wire;
  EmbeddingPlace place;
  std::vector<std::shared_ptr<RowStore>> stores;  // by shard; null where it is another rank's
  std::unique_ptr<Batch> batch, next;             // looked up; prefetched
  std::vector<std::vector<int64_t>> collisions;   // by shard, rows of the table
  bool is_updating = false;                       // between backward() and finish()
  bool has_failed = false;                        // in the middle of a step
  EmbeddingCounters counters;
  ValueTransfer late_values, late_gradients, early_values;
  Lines lines;
};

void EmbeddingTables::Impl::make_room(Batch& made) const {
  for (size_t s = 0; s < spec.plan.shards.size(); ++s) {
    const int64_t columns = spec.plan.shards[s].columns();
    made.at_samples.emplace_back(
        at(checked_product(made.ids.samples, columns, "the values of samples")));
    const int64_t bags = stores[s] != nullptr ? made.ids.all_samples() : 0;
    made.at_shards.emplace_back(at(checked_product(bags, columns, "the values of a shard")));
  }
}

void EmbeddingTables::Impl::check_values(std::span<const int64_t> sizes, int64_t samples,
                                         const char* what) const {
  require(sizes.size() == spec.plan.tables.size(), sizes.size(), " arrays of ", what, " for ",
          spec.plan.tables.size(), " tables");
  for (size_t t = 0; t < sizes.size(); ++t) {
    const int64_t wanted = samples * spec.plan.tables[t].width;
    require(sizes[t] == wanted, "the ", what, " of table '", spec.plan.tables[t].name, "' have ",
            sizes[t], " values, and ", samples, " samples need ", wanted);
  }
}

/// Sums the rows of each bag of this class.
void EmbeddingTables::Impl::look_up(Batch& of, BagClass which) {
  for_own([&](size_t s, const TableShard& shard) {
    const BagList& bags = of.ids.arrived[s];
    std::vector<int64_t> rows;
    for (int64_t bag = 0; bag < bags.bags(); ++bag) {
      if (of.classes.of_shards[s][at(bag)] != which) continue;
      for (const int64_t id : bags.of(bag)) rows.push_back(id - shard.row_begin);
    }
    rows = distinct(std::move(rows));
    const size_t columns = at(shard.columns()), step = at(stride(shard));
    std::vector<float> values(rows.size() * step);
    if (!rows.empty()) stores[s]->read(rows, values.data());
    for (int64_t bag = 0; bag < bags.bags(); ++bag) {
      if (of.classes.of_shards[s][at(bag)] != which) continue;
      float* sum = &of.at_shards[s][at(bag) * columns];
      for (const int64_t id : bags.of(bag)) {
        const auto row = std::lower_bound(rows.begin(), rows.end(), id - shard.row_begin);
        const float* source = &values[at(row - rows.begin()) * step];
        for (size_t c = 0; c < columns; ++c) sum[c] += source[c];
      }
    }
  });
}

/// Adds what the shards of each table have sent, in their order.
void EmbeddingTables::Impl::combine(const Batch& of,
                                    std::span<const std::span<float>> pooled) const {
  for (const auto& table : pooled) std::fill(table.begin(), table.end(), 0.0F);
  for (size_t s = 0; s < spec.plan.shards.size(); ++s) {
    const TableShard& shard = spec.plan.shards[s];
    const int64_t width = spec.plan.tables[at(shard.table)].width;
    for (int64_t i = 0; i < of.ids.samples; ++i) {
      if (of.classes.of_samples[s][at(i)] == BagClass::kEmpty) continue;
      float* target = &pooled[at(shard.table)][at(i * width + shard.column_begin)];
      const float* source = &of.at_samples[s][at(i * shard.columns())];
      for (int64_t c = 0; c < shard.columns(); ++c) target[c] += source[c];
    }
  }
  if (spec.pooling != Pooling::kMean) return;
  for (size_t t = 0; t < pooled.size(); ++t) {
    const int64_t width = spec.plan.tables[t].width;
    for (int64_t i = 0; i < of.ids.samples * width; ++i) {
      const int64_t size = of.ids.bag_sizes[t][at(i / width)];
      if (size > 0) pooled[t][at(i)] /= static_cast<float>(size);
    }
  }
}

/// Every shard's columns of the gradients, of a mean divided by the size of the bag.
void EmbeddingTables::Impl::split_gradients(std::span<const std::span<const float>> gradients) {
  for (size_t s = 0; s < spec.plan.shards.size(); ++s) {
    const TableShard& shard = spec.plan.shards[s];
    const int64_t width = spec.plan.tables[at(shard.table)].width;
    for (int64_t i = 0; i < batch->ids.samples; ++i) {
      if (batch->classes.of_samples[s][at(i)] == BagClass::kEmpty) continue;
      const int64_t size = batch->ids.bag_sizes[at(shard.table)][at(i)];
      const float* source = &gradients[at(shard.table)][at(i * width + shard.column_begin)];
      float* target = &batch->at_samples[s][at(i * shard.columns())];
      for (int64_t c = 0; c < shard.columns(); ++c) {
        target[c] =
            spec.pooling == Pooling::kMean ? source[c] / static_cast<float>(size) : source[c];
      }
    }
  }
}

/// Which rows both batches touch, and which bags therefore come first.
void EmbeddingTables::Impl::find_collisions() {
  for_own([&](size_t s, const TableShard&) {
    const auto now = distinct(batch->ids.arrived[s].ids), then = distinct(next->ids.arrived[s].ids);
    collisions[s].clear();
    std::set_intersection(now.begin(), now.end(), then.begin(), then.end(),
                          std::back_inserter(collisions[s]));
    counters.collision_rows += std::ssize(collisions[s]);
    counters.next_rows += std::ssize(then);
    for (Batch* of : {batch.get(), next.get()}) {
      for (int64_t bag = 0; bag < of->ids.arrived[s].bags(); ++bag) {
        const auto ids = of->ids.arrived[s].of(bag);
        if (ids.empty()) continue;
        const bool collides =
            std::any_of(ids.begin(), ids.end(), [&](int64_t id) { return has(collisions[s], id); });
        of->classes.of_shards[s][at(bag)] = collides ? BagClass::kUrgent : BagClass::kBehind;
      }
    }
  });
  for (Batch* of : {batch.get(), next.get()}) tell_classes(parties(*of), of->classes);
}

/// Updates the rows that collide, or all others.
void EmbeddingTables::Impl::update(bool collide) {
  for_own([&](size_t s, const TableShard& shard) {
    const BagList& bags = batch->ids.arrived[s];
    std::vector<RowGradient> gradients;
    for (int64_t bag = 0; bag < bags.bags(); ++bag) {
      for (const int64_t id : bags.of(bag)) {
        if (has(collisions[s], id) != collide) continue;
        gradients.push_back(
            {id - shard.row_begin, bag, &batch->at_shards[s][at(bag) * at(shard.columns())]});
      }
    }
    apply_exact(gradients, shard.columns(), *spec.optimizer, *stores[s]);
  });
}

/// One step after the other: every row is updated, and nothing was prefetched.
void EmbeddingTables::Impl::update_plainly() {
  ValueTransfer all;
  all.begin(parties(*batch), {ValueWay::kToShards, BagClass::kUrgent, &backward_wire},
            batch->at_samples, {place.comm});
  counters.urgent += all.sent();
  all.end(batch->at_shards);
  update(false);
  batch = nullptr;
}

/// The rows that collide, and then their bags of the next batch; the other gradients go behind.
void EmbeddingTables::Impl::update_first() {
  ValueTransfer first;
  first.begin(parties(*batch), {ValueWay::kToShards, BagClass::kUrgent, &backward_wire},
              batch->at_samples, lines.urgent);
  counters.urgent += first.sent();
  late_gradients.begin(parties(*batch), {ValueWay::kToShards, BagClass::kBehind, &backward_wire},
                       batch->at_samples, lines.behind);
  counters.behind += late_gradients.sent();
  first.end(batch->at_shards);
  update(true);
  look_up(*next, BagClass::kUrgent);
  early_values.begin(parties(*next), {ValueWay::kToSamples, BagClass::kUrgent, &forward_wire},
                     next->at_shards, lines.urgent);
  counters.urgent += early_values.sent();
  is_updating = true;
}

void EmbeddingTables::Impl::update_rest() {
  early_values.end(next->at_samples);
  late_values.end(next->at_samples);
  late_gradients.end(batch->at_shards);
  update(false);
  for (auto& rows : collisions) rows.clear();
  is_updating = false;
  next->classes = all_urgent(spec.plan, next->ids, place.rank);
  batch = std::move(next);
}

EmbeddingTables::EmbeddingTables(tuttiComm_t comm, EmbeddingSpec spec)
    : impl_(std::make_unique<Impl>(comm, std::move(spec))) {}
EmbeddingTables::~EmbeddingTables() = default;

const TablePlan& EmbeddingTables::plan() const { return impl_->spec.plan; }
const EmbeddingCounters& EmbeddingTables::counters() const { return impl_->counters; }

namespace {

template <class Value>
std::vector<int64_t> sizes_of(std::span<const std::span<Value>> arrays) {
  std::vector<int64_t> sizes;
  for (const auto& array : arrays) sizes.push_back(std::ssize(array));
  return sizes;
}

}  // namespace

void EmbeddingTables::forward(std::span<const Bags> bags,
                              std::span<const std::span<float>> pooled) {
  Impl& self = *impl_;
  self.expect_whole();
  require(self.next == nullptr, "a prefetch is under way; call backward() and finish() first");
  auto made = std::make_unique<Batch>();
  made->ids = exchange_ids(self.place, self.spec.plan, bags, [&](int64_t samples) {
    self.check_values(sizes_of(pooled), samples, "pooled values");
  });
  made->classes = all_urgent(self.spec.plan, made->ids, self.place.rank);
  self.make_room(*made);
  self.look_up(*made, BagClass::kUrgent);
  ValueTransfer transfer;
  transfer.begin(self.parties(*made), {ValueWay::kToSamples, BagClass::kUrgent, &self.forward_wire},
                 made->at_shards, {self.place.comm});
  transfer.end(made->at_samples);
  self.counters.urgent += transfer.sent();
  self.combine(*made, pooled);
  self.batch = std::move(made);
}

void EmbeddingTables::prefetch(std::span<const Bags> bags) {
  Impl& self = *impl_;
  self.expect_whole();
  require(self.batch != nullptr,
          "no batch waits for its gradients, so nothing says which rows collide; call forward() "
          "first");
  require(self.next == nullptr, "a prefetch is under way; call backward() and finish() first");
  auto made = std::make_unique<Batch>();
  made->ids = exchange_ids(self.place, self.spec.plan, bags, [](int64_t) {});
  made->classes = all_urgent(self.spec.plan, made->ids, self.place.rank);
  self.make_room(*made);
  self.next = std::move(made);
  self.attempt([&] {
    self.find_collisions();
    self.look_up(*self.next, BagClass::kBehind);
    self.late_values.begin(self.parties(*self.next),
                           {ValueWay::kToSamples, BagClass::kBehind, &self.forward_wire},
                           self.next->at_shards, self.lines.behind);
    self.counters.behind += self.late_values.sent();
  });
}

void EmbeddingTables::backward(std::span<const std::span<const float>> gradients) {
  Impl& self = *impl_;
  self.expect_whole();
  require(self.batch != nullptr && !self.is_updating,
          "no batch waits for its gradients; call forward() first, and backward() once for it");
  self.check_values(sizes_of(gradients), self.batch->ids.samples, "gradients");
  self.split_gradients(gradients);
  self.attempt([&] { self.next == nullptr ? self.update_plainly() : self.update_first(); });
}

void EmbeddingTables::finish(std::span<const std::span<float>> pooled) {
  Impl& self = *impl_;
  self.expect_whole();
  require(self.is_updating, "nothing was prefetched and updated; call prefetch() and backward()");
  self.check_values(sizes_of(pooled), self.next->ids.samples, "pooled values");
  self.attempt([&] { self.update_rest(); });
  self.combine(*self.batch, pooled);
}

std::vector<int64_t> EmbeddingTables::collisions(int shard) const {
  impl_->expect_own(shard);
  require(impl_->next != nullptr,
          "no batch is prefetched: collisions are known between prefetch() and finish()");
  return impl_->collisions[at(shard)];
}

RowStore& EmbeddingTables::store(int shard) {
  impl_->expect_own(shard);
  return *impl_->stores[at(shard)];
}

namespace {

void check_whole(const TablePlan& plan, int table, size_t values) {
  require(table >= 0 && table < std::ssize(plan.tables), "there is no table ", table);
  const EmbeddingTable& of = plan.tables[at(table)];
  require(values == at(of.rows * of.width), "table '", of.name, "' has ", of.rows * of.width,
          " values, and ", values, " were passed");
}

constexpr int64_t kRowsAtOnce = 4096;

/// Visits runs of a shard's rows, with room for their values.
template <class Visit>
void for_runs(const TableShard& shard, int64_t stride, Visit visit) {
  for (int64_t begin = 0; begin < shard.rows(); begin += kRowsAtOnce) {
    std::vector<int64_t> rows(at(std::min(kRowsAtOnce, shard.rows() - begin)));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = begin + static_cast<int64_t>(i);
    std::vector<float> stored(rows.size() * at(stride));
    visit(rows, stored);
  }
}

}  // namespace

void EmbeddingTables::load(int table, std::span<const float> values) {
  check_whole(plan(), table, values.size());
  const int64_t width = plan().tables[at(table)].width;
  impl_->for_own([&](size_t s, const TableShard& shard) {
    if (shard.table != table) return;
    const int64_t stride = impl_->stride(shard);
    for_runs(shard, stride, [&](auto& rows, auto& stored) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t from = (shard.row_begin + rows[i]) * width + shard.column_begin;
        std::copy_n(&values[at(from)], shard.columns(), &stored[i * at(stride)]);
      }
      impl_->stores[s]->write(rows, stored.data());
    });
  });
}

void EmbeddingTables::save(int table, std::span<float> values) const {
  check_whole(plan(), table, values.size());
  const int64_t width = plan().tables[at(table)].width;
  impl_->for_own([&](size_t s, const TableShard& shard) {
    if (shard.table != table) return;
    const int64_t stride = impl_->stride(shard);
    for_runs(shard, stride, [&](auto& rows, auto& stored) {
      impl_->stores[s]->read(rows, stored.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t to = (shard.row_begin + rows[i]) * width + shard.column_begin;
        std::copy_n(&stored[i * at(stride)], shard.columns(), &values[at(to)]);
      }
    });
  });
}

}  // namespace tutti::runtime
