#include "perf/collectives/group_board.h"

#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {

GroupBoard::GroupBoard(const tuttiUniqueId& id, int rank, int ranks) : ranks_(ranks) {
  check(tuttiCommInitRank(&comm_, ranks, id, rank), "tuttiCommInitRank");
}

GroupBoard::~GroupBoard() {
  if (!failed_) tuttiCommDestroy(comm_);
}

void GroupBoard::check(tuttiResult_t result, const char* call) const {
  if (result == tuttiSuccess) return;
  throw PerfError(std::string("between measurements, ") + call + ": " + tuttiGetLastError(comm_),
                  kExitLibrary);
}

void GroupBoard::barrier() { check(tuttiBarrier(comm_, tuttiBlocking()), "tuttiBarrier"); }

void GroupBoard::fail() noexcept {
  if (!failed_) tuttiCommAbort(comm_);
  failed_ = true;
}

std::vector<Board::Note> GroupBoard::exchange_notes(int /*rank*/, const Note& own) {
  std::vector<Note> notes(static_cast<size_t>(ranks_));
  check(tuttiAllGather(own.data(), notes.data(), sizeof own, tuttiUint8, comm_, tuttiBlocking()),
        "tuttiAllGather");
  return notes;
}

std::vector<std::vector<double>> GroupBoard::gather_samples(int /*rank*/,
                                                            std::span<const double> own) {
  std::vector<double> all(own.size() * static_cast<size_t>(ranks_));
  check(tuttiAllGather(own.data(), all.data(), own.size(), tuttiFloat64, comm_, tuttiBlocking()),
        "tuttiAllGather");
  std::vector<std::vector<double>> samples;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(own.size()) * rank;
    samples.emplace_back(first, first + static_cast<ptrdiff_t>(own.size()));
  }
  return samples;
}

}  // namespace tutti::perf
