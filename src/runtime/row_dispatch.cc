#include "tutti/runtime/row_dispatch.h"

#include <cstring>

#include "src/runtime/epoch.h"
#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

// The window's signals: rows have arrived, results are ready.
constexpr uint32_t kRows = 0;
constexpr uint32_t kResults = 1;

uint64_t print_of(const DispatchIndex& index) {
  Fingerprint print;
  print.add(index.tokens);
  print.add(index.k);
  for (const auto* list : {&index.token_of_row, &index.expert_offsets, &index.row_of_slot}) {
    for (const int32_t entry : *list) print.add(entry);
  }
  return print.value();
}

}  // namespace

RowDispatch::RowDispatch(tuttiComm_t comm, int experts, int64_t capacity, Bytes row)
    : comm_(comm), experts_(experts), capacity_(capacity), row_(row.value) {
  expect_success(tuttiCommCount(comm, &ranks_), comm, "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &rank_), comm, "tuttiCommUserRank");
  epoch_ = epoch_of(comm);
  require(experts >= 1 && experts % ranks_ == 0, experts, " experts are not a multiple of ", ranks_,
          " ranks");
  require(row_ >= 1, "a row has ", row_, " bytes; give 1 or more");
  require(capacity >= 1, "there is room for ", capacity, " rows; give 1 or more");
  const size_t bytes = at(checked_product(capacity, row_, "the room for rows in bytes"));
  expect_success(tuttiMemAlloc(&memory_, bytes), nullptr, "tuttiMemAlloc");
  const tuttiResult_t result = tuttiCommWindowRegister(comm, memory_, bytes, &window_, 0);
  if (result != tuttiSuccess) tuttiMemFree(memory_);
  expect_success(result, comm, "tuttiCommWindowRegister");
}

RowDispatch::~RowDispatch() {
  // When all ranks have come here, every rank has fetched its results.
  tuttiBarrier(comm_, tuttiBlocking());
  tuttiCommWindowDeregister(comm_, window_);
  tuttiMemFree(memory_);
}

int64_t RowDispatch::place_of(const Counts& counts, int expert, int source) const {
  const int first = home_of(expert) * (experts_ / ranks_);
  int64_t place = 0;
  for (int e = first; e < expert; ++e) place += counts.sums[at(e)];
  for (int s = 0; s < source; ++s) place += counts.of(s)[at(expert)];
  return place;
}

void RowDispatch::place(const DispatchIndex& index, const Counts& counts) {
  expect_epoch(comm_, epoch_, "the dispatch of rows");
  require(
      index.experts == experts_ && std::ssize(counts.sums) == experts_ && counts.ranks == ranks_,
      "index and counts are for ", index.experts, " and ", counts.sums.size(), " experts of ",
      counts.ranks, " ranks, this dispatch for ", experts_, " of ", ranks_);
  for (int e = 0; e < experts_; ++e) {
    require(counts.of(rank_)[at(e)] == index.count_of(e), "the counts say ",
            counts.of(rank_)[at(e)], " rows of rank ", rank_, " for expert ", e,
            " and the index has ", index.count_of(e), "; exchange the counts of this index");
  }
  const int each = experts_ / ranks_;
  for (int r = 0; r < ranks_; ++r) {
    int64_t arriving = 0;
    for (int e = r * each; e < (r + 1) * each; ++e) arriving += counts.sums[at(e)];
    require(arriving <= capacity_, "rank ", r, " gets ", arriving, " rows and has room for ",
            capacity_, "; make the room larger, or drop tokens (expert_capacity)");
  }
  places_.clear();
  for (int e = 0; e < experts_; ++e) places_.push_back(place_of(counts, e, rank_));
  offsets_.assign(1, 0);
  for (int e = rank_ * each; e < (rank_ + 1) * each; ++e) {
    offsets_.push_back(offsets_.back() + counts.sums[at(e)]);
  }
}

void RowDispatch::prepare(const DispatchIndex& index, const Counts& counts) {
  place(index, counts);
  expect_success(tuttiBarrier(comm_, tuttiBlocking()), comm_, "tuttiBarrier");
  index_print_ = print_of(index);
  dispatched_ = true;
}

void RowDispatch::dispatch(const DispatchIndex& index, const Counts& counts, const void* x) {
  require(!dispatched_, "rows were dispatched and not combined; combine() first");
  place(index, counts);
  expect_success(tuttiBarrier(comm_, tuttiBlocking()), comm_, "tuttiBarrier");
  const int each = experts_ / ranks_;
  // Each rank begins with its own experts, so that not all of them write to rank 0 first.
  for (int i = 0; i < experts_; ++i) {
    put_rows(index, (rank_ * each + i) % experts_, static_cast<const std::byte*>(x));
  }
  signal_and_wait(kRows);
  index_print_ = print_of(index);
  dispatched_ = true;
}

void RowDispatch::put_rows(const DispatchIndex& index, int expert, const std::byte* x) {
  const int home = home_of(expert);
  const int64_t first = index.expert_offsets[at(expert)],
                last = index.expert_offsets[at(expert) + 1];
  for (int64_t row = first; row < last;) {
    const int64_t token = index.token_of_row[at(row)];
    int64_t run = 1;
    while (row + run < last && index.token_of_row[at(row + run)] == token + run) ++run;
    const size_t bytes = at(run * row_);
    const size_t place = at((places_[at(expert)] + row - first) * row_);
    if (home == rank_) {
      std::memcpy(static_cast<std::byte*>(memory_) + place, x + token * row_, bytes);
      counters_.stayed += Bytes(run * row_);
    } else {
      expect_success(tuttiPut(x + token * row_, bytes, home, window_, place, tuttiBlocking()),
                     comm_, "tuttiPut");
      ++counters_.puts;
      counters_.sent += Bytes(run * row_);
    }
    row += run;
  }
}

void RowDispatch::signal_and_wait(uint32_t signal) {
  for (int i = 1; i < ranks_; ++i) {
    expect_success(tuttiSignal((rank_ + i) % ranks_, window_, signal, tuttiBlocking()), comm_,
                   "tuttiSignal");
  }
  for (int i = 1; i < ranks_; ++i) {
    const int peer = (rank_ + ranks_ - i) % ranks_;
    expect_success(tuttiWaitSignal(peer, window_, signal, 1, tuttiBlocking()), comm_,
                   "tuttiWaitSignal");
  }
}

void RowDispatch::combine(const DispatchIndex& index, void* results) {
  require(dispatched_, "there is nothing to combine; dispatch() or prepare() first");
  expect_epoch(comm_, epoch_, "the dispatch of rows");
  require(index.experts == experts_, "the index is for ", index.experts, " experts, not ",
          experts_);
  require(
      print_of(index) == index_print_,
      "the index is not the one whose rows were dispatched; combine() micro-batches in the order "
      "of their dispatch()");
  signal_and_wait(kResults);
  auto* to = static_cast<std::byte*>(results);
  for (int i = 0; i < experts_; ++i) {
    const int expert = (rank_ * (experts_ / ranks_) + i) % experts_;
    const int64_t rows = index.count_of(expert);
    if (rows == 0) continue;
    std::byte* target = to + int64_t{index.expert_offsets[at(expert)]} * row_;
    const size_t place = at(places_[at(expert)] * row_), bytes = at(rows * row_);
    if (home_of(expert) == rank_) {
      std::memcpy(target, static_cast<std::byte*>(memory_) + place, bytes);
      counters_.stayed += Bytes(rows * row_);
      continue;
    }
    expect_success(tuttiGet(target, bytes, home_of(expert), window_, place, tuttiBlocking()), comm_,
                   "tuttiGet");
    ++counters_.gets;
    counters_.fetched += Bytes(rows * row_);
  }
  dispatched_ = false;
}

}  // namespace tutti::runtime
