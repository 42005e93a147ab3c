// Routed rows by one-sided access: a token's row goes straight from its memory to its place on the
// expert's rank, and results come back the same way. The sender has no buffer in expert order, and
// the receiver has none to sort: on one host each row is copied once.
//
// The index lists are MoEBlaze's (moe_index.h); their use across ranks is our extension, since the
// paper runs on one GPU. The width of a row is free: experts that work at r * h (BigMac, DCCA) use
// the same lists with narrower rows.
//
// Units:    rows of `row` bytes. Expert e lives on rank e / (experts / ranks).
// Owns:     a window with room for `capacity` rows; results of combine() are the caller's memory.
// Ordering: collective, its making and its end included; dispatch() or prepare(), then combine() or
//           release(), then the next one. Both begin with a barrier, so nobody writes rows that
//           somebody still reads.
// Threads:  one at a time, as the communicator.
// Errors:   throws Error. Counts are known to all ranks, so that where rows do not fit all ranks
//           say so before anything is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/runtime/counters.h"
#include "tutti/runtime/moe_index.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

struct RowCounters {
  int64_t puts = 0;  // runs of rows that lie together on both sides go as one
  int64_t gets = 0;
  Bytes sent{0};     // to other ranks
  Bytes fetched{0};  // from them
  Bytes stayed{0};   // copied within the rank, once each way
  Bytes staged{0};   // into buffers of this class: none
};

class TUTTI_RUNTIME_API RowDispatch {
 public:
  RowDispatch(tuttiComm_t comm, int experts, int64_t capacity, Bytes row);
  ~RowDispatch();
  RowDispatch(const RowDispatch&) = delete;
  RowDispatch& operator=(const RowDispatch&) = delete;

  /// x: index.tokens rows. `counts` are index.count_of() of all ranks, from one exchange
  /// (counters.h).
  void dispatch(const DispatchIndex& index, const Counts& counts, const void* x);

  /// Opens the window for results that experts write without having been sent rows, as gradients do
  /// in a backward pass: combine() of this index follows. Nothing is sent. Rows that were
  /// dispatched before are given up.
  void prepare(const DispatchIndex& index, const Counts& counts);
  /// The rows have been copied out of the window: dispatch() may follow without a combine().
  void release() { dispatched_ = false; }

  /// This rank's rows: by expert, then source rank, then the source's token order. Experts write
  /// their results over them.
  void* rows() const { return memory_; }
  /// One more than this rank's experts.
  const std::vector<int64_t>& offsets() const { return offsets_; }

  /// results: index.rows() rows in the order of the index, for reduce_rows(). The index is that of
  /// dispatch(): another one is refused before anything is fetched.
  void combine(const DispatchIndex& index, void* results);

  const RowCounters& counters() const { return counters_; }

 private:
  void place(const DispatchIndex& index, const Counts& counts);
  int home_of(int expert) const { return expert / (experts_ / ranks_); }
  int64_t place_of(const Counts& counts, int expert, int source) const;
  void put_rows(const DispatchIndex& index, int expert, const std::byte* x);
  void signal_and_wait(uint32_t signal);

  tuttiComm_t comm_;
  int experts_;
  int64_t capacity_;
  int64_t row_;
  int ranks_ = 0;
  int rank_ = 0;
  uint32_t epoch_ = 0;
  void* memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
  bool dispatched_ = false;
  uint64_t index_print_ = 0;     // of the index whose rows were dispatched
  std::vector<int64_t> places_;  // of each expert: where this rank's rows begin at its home
  std::vector<int64_t> offsets_;
  RowCounters counters_;
};

}  // namespace tutti::runtime
