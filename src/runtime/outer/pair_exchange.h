// Values that two ranks send each other, with what they are, on a HOST stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/runtime/outer/ballot.h"
#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

class PairExchange {
 public:
  explicit PairExchange(int64_t count) : theirs_(static_cast<size_t>(count)) {}
  ~PairExchange() { drop(); }

  /// The partner calls it with this rank. `values` are copied. From a communicator that has failed
  /// nothing is begun, and finish() says so.
  void begin(const OuterGroup& group, int partner, const GatherVote& vote,
             std::span<const float> values);
  /// Waits. "" if the partner's values have come and both votes are to commit, else why not. Throws
  /// kRanksDiffer if the partner exchanged something else.
  std::string finish();
  bool is_pending() const { return is_pending_; }
  void drop();
  void set_timeout(uint64_t timeout_ns) { timeout_ns_ = timeout_ns; }

  std::span<const float> theirs() const { return theirs_; }

 private:
  struct PairWords {
    int64_t epoch = 0, step = 0, fragment = 0, commit = 0;
  };

  void add_call(tuttiCollective_t collective, const void* send, void* recv, size_t bytes);
  tuttiResult_t wait();

  tuttiComm_t comm_ = nullptr;
  int partner_ = -1;
  uint64_t timeout_ns_ = 0;
  PairWords own_words_, their_words_;
  std::vector<float> own_, theirs_;
  OuterStream stream_;
  std::vector<tuttiRequest_t> requests_;
  std::string refused_;  // why nothing was begun
  bool is_pending_ = false;
};

}  // namespace tutti::runtime
