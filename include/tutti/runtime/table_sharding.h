// Which rank holds which part of which embedding table: whole tables, runs of rows or of columns,
// placed by their cost under a limit of memory (ZionEX, arXiv:2104.05158).
//
// Cost: a shard reads and updates the rows that a step asks for and sends its columns of every
// sample: bytes of rows / memory_rate + bytes on the wire / link_rate. Ids are taken to be uniform.
// Exact: table-, row- and column-wise shards, longest processing time first. Ours: a table is cut
// only where it is larger than the mean share or the memory of a rank, into as few parts as bring
// it below, by columns where the alignment allows it. Tables that every rank has, and tables that
// are cut both ways, are not planned; a plan made by hand may cut both ways.
//
// Units:   rows and columns are counts; values and their optimizer's state are fp32; nanoseconds.
// Errors:  throws Error: kInvalidInput names the table and the number, kInfeasible the memory.
// Threads: pure functions of their arguments, equal on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/runtime/assign.h"

namespace tutti::runtime {

enum class TableCut { kAuto, kWhole, kRows, kColumns };

struct EmbeddingTable {
  std::string name;
  int64_t rows = 1;
  int64_t width = 1;
  double pooling = 1;  // ids of a sample, on average
  TableCut cut = TableCut::kAuto;
  int parts = 0;  // of a table that is cut by rows or columns; 0: the plan chooses
  bool operator==(const EmbeddingTable&) const = default;
};

struct TableShardingSpec {
  int ranks = 1;
  int64_t batch = 1;            // samples of a step, of all ranks together
  Bytes memory{kNoLimit};       // of a rank, for rows and their state
  int64_t state_of_row = 1;     // values of the optimizer beside each row: 1 for row-wise Adagrad
  int64_t column_align = 4;     // every run of columns begins and ends at a multiple of it
  double memory_rate = 10;      // bytes a nanosecond
  double link_rate = 10;        // bytes a nanosecond
  int64_t wire_bytes = 2;       // of a value, forward
  int64_t wire_bytes_back = 4;  // and backward
};

/// Rows and columns begin .. end of a table lie on this rank.
struct TableShard {
  int table = 0;
  int rank = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t column_begin = 0;
  int64_t column_end = 0;
  Nanoseconds cost{0};
  Bytes memory{0};

  int64_t rows() const { return row_end - row_begin; }
  int64_t columns() const { return column_end - column_begin; }
  bool operator==(const TableShard&) const = default;
};

struct TablePlan {
  int ranks = 1;
  std::vector<EmbeddingTable> tables;
  std::vector<TableShard> shards;  // by table, then first column, then first row
  bool operator==(const TablePlan&) const = default;
};

TUTTI_RUNTIME_API TablePlan plan_tables(const std::vector<EmbeddingTable>& tables,
                                        const TableShardingSpec& spec);

/// Throws unless every value of every table has exactly one shard and shards are in their order.
TUTTI_RUNTIME_API void check_tables(const TablePlan& plan);

/// The same cuts on fewer ranks: rank r's shards go to r % ranks. The results of
/// EmbeddingTables depend on the cuts alone, so this plan gives the same bits.
TUTTI_RUNTIME_API TablePlan on_fewer_ranks(const TablePlan& plan, int ranks);

TUTTI_RUNTIME_API uint64_t fingerprint(const TablePlan& plan);

}  // namespace tutti::runtime
