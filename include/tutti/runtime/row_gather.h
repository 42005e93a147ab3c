// Rows of a table in host memory gathered into one buffer: features of graphs, embeddings, samples
// (PyTorch-Direct, arXiv:2101.07956; GPU-oriented communication for GCN, arXiv:2103.03330).
//
// RowGather is the host's way: threads copy runs of rows and ask the memory for rows ahead, while
// the caller computes. Memory moves in whole lines, so a row that begins inside a line moves more
// than it wants: counters() has both.
//
// lines_of_reads() is about a device that reads the rows itself. Groups of 32 lanes, each of 4
// bytes, fill the output in order, and a lane's address decides which 128-byte line is read. With
// rotation, each row is read from another column on, such that its addresses lie in their lines as
// those of the output do, and the columns before it come last. That halves the lines of long rows
// that are no multiple of a line, and costs lines for short ones (132 bytes): so the lines of both
// are predicted, and rotates() says which are fewer. The papers rotate every row above 128 bytes.
//
// Exact: the model of lines, the rotation, asynchronous gathers. Ours: the gate, threads of the
// host instead of a kernel. There is no kernel for devices yet, so table and target are memory of
// the host; give a device its rows by a copy of the target.
//
// Units:   bytes; rows count from 0, and no negative number means one from the end.
// Owns:    threads, and copies of the ids of gathers under way. Table and target are the caller's;
//          the table does not change, and the target is neither read nor written, until wait().
// Threads: one at a time; the HOST streams of the library run its calls alone, so a gather has a
//          ticket instead of a stream.
// Errors:  throws Error before anything is written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tutti/runtime/error.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

struct RowTable {
  const void* data = nullptr;
  int64_t rows = 0;
  Bytes row{0};      // gathered of each row
  Bytes stride{0};   // from one row to the next; 0: that of `row`
  Bytes element{4};  // row and stride are multiples of it
};

struct RowGatherCounters {
  int64_t gathers = 0;
  int64_t rows = 0;
  Bytes wanted{0};
  Bytes line{0};      // a line of the host
  int64_t lines = 0;  // in which the wanted rows lie, counted for each row

  Bytes moved() const { return line * lines; }
};

class TUTTI_RUNTIME_API RowGather {
 public:
  /// `threads` beside the caller's; -1: as many as there are cores, but for one, and 8 at most.
  explicit RowGather(const RowTable& table, int threads = -1);
  /// Waits for what is under way.
  ~RowGather();
  RowGather(const RowGather&) = delete;
  RowGather& operator=(const RowGather&) = delete;

  /// Copies rows ids[0], ids[1] ... one behind the other to `target`, which has `room` bytes.
  void gather(std::span<const int64_t> ids, void* target, Bytes room);
  /// The same in the background. The ticket is good for one wait().
  int64_t begin(std::span<const int64_t> ids, void* target, Bytes room);
  bool done(int64_t ticket) const;
  void wait(int64_t ticket);

  RowGatherCounters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// 128-byte lines that a device reads for each row, on average over rows anywhere in the table.
struct ReadLines {
  double plain = 0;
  double rotated = 0;
  bool rotates() const { return rotated < plain; }
};
/// Rows of so many bytes, a multiple of 4, one behind the other. Refuses rows beyond 16 MiB.
TUTTI_RUNTIME_API ReadLines lines_of_reads(Bytes row);
/// The same for given rows, by counting.
TUTTI_RUNTIME_API ReadLines lines_of_reads(Bytes row, std::span<const int64_t> ids);

}  // namespace tutti::runtime
