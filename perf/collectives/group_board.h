// A board that is a communicator: for ranks of processes that a launcher started, on any hosts.
//
// Owns: its rank's member of the communicator. Threads: one; each rank has a board of its own, also
// where several are threads of one process. Errors: PerfError.
#pragma once

#include "perf/collectives/board.h"
#include "tutti/tutti.h"

namespace tutti::perf {

class GroupBoard : public Board {
 public:
  /// Collective.
  GroupBoard(const tuttiUniqueId& id, int rank, int ranks);
  ~GroupBoard() override;

  int ranks() const override { return ranks_; }
  void barrier() override;
  /// Ends the communicator, so that the other ranks do not wait.
  void fail() noexcept override;
  bool failed() const noexcept override { return failed_; }
  std::vector<Note> exchange_notes(int rank, const Note& own) override;
  std::vector<std::vector<double>> gather_samples(int rank, std::span<const double> own) override;

 private:
  void check(tuttiResult_t result, const char* call) const;

  tuttiComm_t comm_ = nullptr;
  const int ranks_;
  bool failed_ = false;
};

}  // namespace tutti::perf
