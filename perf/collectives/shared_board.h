// A board that is a piece of memory: for the ranks of one host.
#pragma once

#include <memory>
#include <string>

#include "perf/collectives/board.h"

namespace tutti::perf {

class SharedBoard : public Board {
 public:
  /// Shared with threads, and with processes forked later. Errors: PerfError.
  explicit SharedBoard(int ranks);
  /// Shared by name: one rank creates it, the others open it, and then the creator unlinks the
  /// name.
  enum class Access { kCreate, kOpen };
  SharedBoard(int ranks, const std::string& name, Access access);

  void unlink() const;

  int ranks() const override { return ranks_; }
  void barrier() override;
  void fail() noexcept override;
  bool failed() const noexcept override;
  std::vector<Note> exchange_notes(int rank, const Note& own) override;
  std::vector<std::vector<double>> gather_samples(int rank, std::span<const double> own) override;

 private:
  struct Memory;
  struct Unmap {
    void operator()(Memory* memory) const;
  };
  static Memory* map(int file);

  int ranks_;
  int spins_;
  std::string name_;
  std::unique_ptr<Memory, Unmap> memory_;
};

}  // namespace tutti::perf
