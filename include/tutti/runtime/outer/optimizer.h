// The interface of optimizers that let ranks train alone for many steps and exchange something
// small now and then. A rank calls boundary() behind each of its inner steps.
//
//   for (int64_t step = 1; step <= steps; ++step) {
//     inner_step(params);
//     outer.boundary(step, params);   // begins an exchange, takes over one that is due, or neither
//   }
//   outer.finish(params);
//
// Exchanges run on a HOST stream behind the inner steps; boundary() waits only for a result that is
// due. Each exchange carries epoch, step, fragment and a vote. If a rank votes against it, or its
// values are not finite, no rank takes the result over, and reports say whose vote it was. If ranks
// are at different steps or in different epochs, all of them throw.
//
// Owns:     a stream, and copies of parameters as each header says. The communicator is the
//           caller's, and only this object's as long as the object lives (give it one of its own).
// Ordering: construction and regroup() are collective over the communicator. All ranks call
//           boundary() with the same steps, one after the other: 1, 2, 3 ...
// Threads:  one at a time.
// Errors:   throws Error: kInvalidInput with what to change, before anything is sent; kRanksDiffer;
//           kCommunication for a communicator that has failed, whereupon regroup() or destruction
//           are what is left.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

/// The ranks that train together now. An edit gives another communicator and a higher epoch.
struct OuterGroup {
  tuttiComm_t comm = nullptr;
  int64_t epoch = 0;
};

struct OuterReport {
  int launched = -1;    // the fragment whose exchange has begun; -1: none
  int applied = -1;     // the fragment whose result was taken over; -1: none
  std::string skipped;  // why a result was not taken over; empty: none was skipped
};

class TUTTI_RUNTIME_API OuterOptimizer {
 public:
  virtual ~OuterOptimizer() = default;
  OuterOptimizer(const OuterOptimizer&) = delete;
  OuterOptimizer& operator=(const OuterOptimizer&) = delete;

  /// Behind inner step `step`. `commit` is this rank's vote on what begins here: false if its step
  /// went wrong in a way that only the caller knows.
  OuterReport boundary(int64_t step, std::span<float> params, bool commit = true);
  /// Waits for what is under way and takes it over: at the end of training, and before an edit of
  /// the group if nothing is to be lost.
  OuterReport finish(std::span<float> params);
  /// Continues with other ranks. A result of the older epoch that is still under way is dropped; if
  /// ranks of it may be gone, revoke or abort the old communicator first, for this waits until
  /// nothing uses memory of this object any more.
  void regroup(OuterGroup group);

  int64_t epoch() const { return group_.epoch; }
  /// The bytes that this rank's contributions put on links to all other ranks.
  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  OuterOptimizer(OuterGroup group, int64_t elements);

  const OuterGroup& group() const { return group_; }
  int64_t elements() const { return elements_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  void count_bytes(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  virtual OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) = 0;
  virtual OuterReport take_rest(std::span<float> params) = 0;
  /// Drops what is under way; group() is the new one.
  virtual void join_group() = 0;
  void look_at_group();
  void check_params(std::span<float> params) const;

  OuterGroup group_;
  int64_t elements_;
  int ranks_ = 0;
  int rank_ = 0;
  int64_t last_step_ = -1;  // -1: none yet
  bool inside_ = false;
  int64_t bytes_sent_ = 0;
};

/// Brings `params` and `step` of rank `root` to all ranks of the communicator: for ranks that join
/// a training that is under way. Collective.
TUTTI_RUNTIME_API void broadcast_state(tuttiComm_t comm, int root, std::span<float> params,
                                       int64_t& step);

}  // namespace tutti::runtime
