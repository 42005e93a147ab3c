// A board that is a communicator: for ranks that a launcher started, on any hosts.
//
// Owns: nothing; the communicator outlives it, unless fail() aborts it. Threads: one. Errors:
// PerfError.
#pragma once

#include "perf/collectives/board.h"
#include "tutti/tutti.h"

namespace tutti::perf {

class GroupBoard : public Board {
 public:
  explicit GroupBoard(tuttiComm_t comm);

  int rank() const { return rank_; }
  int ranks() const override { return ranks_; }
  void barrier() override;
  /// Ends the communicator, so that the other ranks do not wait.
  void fail() noexcept override;
  bool failed() const noexcept override { return failed_; }
  std::vector<Note> exchange_notes(int rank, const Note& own) override;
  std::vector<std::vector<double>> gather_samples(int rank, std::span<const double> own) override;

 private:
  void check(tuttiResult_t result, const char* call) const;

  tuttiComm_t comm_;
  int rank_ = 0;
  int ranks_ = 1;
  bool failed_ = false;
};

}  // namespace tutti::perf
