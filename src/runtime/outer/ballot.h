// The words that ranks exchange beside each result: which one it is, and whether all want it.
#pragma once

#include <string>
#include <vector>

#include "tutti/runtime/coded_gather.h"

namespace tutti::runtime {

/// A HOST stream, as long as its owner lives.
class OuterStream {
 public:
  OuterStream();
  ~OuterStream();
  OuterStream(const OuterStream&) = delete;
  OuterStream& operator=(const OuterStream&) = delete;
  tuttiStream_t get() const { return stream_; }

 private:
  tuttiStream_t stream_{};
};

/// Submits the call to a HOST stream; the caller waits for the request.
tuttiRequest_t submit_behind(const tuttiCall_t& call, tuttiComm_t comm, const OuterStream& stream,
                             uint64_t timeout_ns = 0);
/// Waits for a request, if there is one, and forgets it.
tuttiResult_t wait_for(tuttiRequest_t& request);

/// The votes of all ranks of a communicator on one exchange.
class VoteRound {
 public:
  ~VoteRound() { wait_for(request_); }

  void begin(tuttiComm_t comm, const OuterStream& stream, const GatherVote& vote);
  /// Waits, whatever comes: afterwards nothing is under way.
  tuttiResult_t wait() { return wait_for(request_); }
  /// Of a ballot that was waited for. Throws kRanksDiffer if a rank voted on something else.
  GatherOutcome outcome() const;

 private:
  struct Words {
    int64_t epoch, step, fragment, commit;
  };

  tuttiComm_t comm_ = nullptr;
  Words own_{};
  std::vector<Words> all_;
  tuttiRequest_t request_ = nullptr;
};

}  // namespace tutti::runtime
