#include "tutti/runtime/table_sharding.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kValueBytes = 4;

void check_table(const EmbeddingTable& table) {
  require(table.rows >= 1 && table.width >= 1, "table '", table.name, "' has ", table.rows,
          " rows of ", table.width, " values; give 1 or more of each");
  require(std::isfinite(table.pooling) && table.pooling > 0, "table '", table.name, "' has ",
          table.pooling, " ids of a sample; give a number above 0");
  require(table.parts >= 0 &&
              (table.parts == 0 || table.cut == TableCut::kRows || table.cut == TableCut::kColumns),
          "table '", table.name, "' has ", table.parts,
          " parts; say how it is cut, by rows or by columns, or give 0");
}

void check_spec(const TableShardingSpec& spec) {
  check_ranks(spec.ranks);
  require(spec.batch >= 1, "a batch of ", spec.batch, " samples; give 1 or more");
  require(spec.memory > Bytes(0) && spec.state_of_row >= 0, "a rank has ", spec.memory.value,
          " bytes and rows have ", spec.state_of_row, " values of state; give memory above 0");
  require(spec.column_align >= 1 && spec.wire_bytes >= 1 && spec.wire_bytes_back >= 1,
          "the alignment is ", spec.column_align, " columns and a value has ", spec.wire_bytes,
          " and ", spec.wire_bytes_back, " bytes on the wire; give 1 or more");
  for (const double rate : {spec.memory_rate, spec.link_rate}) {
    require(std::isfinite(rate) && rate > 0, "a rate is ", rate, " bytes a ns; give more than 0");
  }
}

/// Fills in what the shard costs and takes.
void price(const EmbeddingTable& table, const TableShardingSpec& spec, TableShard& shard) {
  constexpr double kPasses = 3;  // read for the forward pass, read and written by the update
  const int64_t stride = checked_sum(shard.columns(), spec.state_of_row, "the values of a row");
  shard.memory = Bytes(checked_product(checked_product(shard.rows(), stride, "a shard's values"),
                                       kValueBytes, "a shard's bytes"));
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double share = number(shard.rows()) / number(table.rows);
  const double looked_up = number(spec.batch) * table.pooling * share;
  const double row_bytes = looked_up * number(shard.columns() * kValueBytes) * kPasses;
  const double sent =
      number(spec.batch) * number(shard.columns()) * number(spec.wire_bytes + spec.wire_bytes_back);
  const double time = row_bytes / spec.memory_rate + sent / spec.link_rate;
  shard.cost = Nanoseconds(std::max<int64_t>(1, checked_round(time, "the time of a shard")));
}

class TableCutter {
 public:
  TableCutter(const std::vector<EmbeddingTable>& tables, const TableShardingSpec& spec)
      : tables_(tables), spec_(spec) {
    for (size_t t = 0; t < tables.size(); ++t) {
      whole_.push_back({static_cast<int>(t), 0, 0, tables[t].rows, 0, tables[t].width, {}, {}});
      price(tables[t], spec, whole_.back());
      total_ = checked_sum(total_, whole_.back().cost.value, "the time of all tables");
    }
  }

  std::vector<TableShard> cut() const {
    std::vector<TableShard> shards;
    for (size_t t = 0; t < tables_.size(); ++t) {
      const EmbeddingTable& table = tables_[t];
      const int64_t least = table.parts > 0 ? table.parts : least_parts(whole_[t]);
      const bool may_stay =
          table.cut == TableCut::kWhole || (table.cut == TableCut::kAuto && least == 1);
      if (may_stay) {
        shards.push_back(whole_[t]);
        continue;
      }
      const int64_t columns = parts_by_columns(table, least);
      const bool by_columns =
          table.cut == TableCut::kColumns || (table.cut == TableCut::kAuto && columns > 0);
      if (by_columns) check_columns(table, least, columns);
      append(t, by_columns, by_columns ? columns : parts_by_rows(table, least), shards);
    }
    return shards;
  }

 private:
  /// As few parts as bring the table to the mean share of a rank and below its memory.
  int64_t least_parts(const TableShard& whole) const {
    const auto over = [](int64_t a, int64_t b) { return a / b + (a % b != 0); };
    const int64_t mean = std::max<int64_t>(1, over(total_, spec_.ranks));
    return std::clamp<int64_t>(
        std::max(over(whole.cost.value, mean), over(whole.memory.value, spec_.memory.value)), 1,
        spec_.ranks);
  }
  /// 0: none fits the alignment.
  int64_t parts_by_columns(const EmbeddingTable& table, int64_t least) const {
    const int64_t most = table.parts > 0 ? table.parts : spec_.ranks;
    for (int64_t parts = least; parts <= most; ++parts) {
      if (table.width % parts == 0 && table.width / parts % spec_.column_align == 0) return parts;
    }
    return 0;
  }
  void check_columns(const EmbeddingTable& table, int64_t least, int64_t found) const {
    require(found > 0, "table '", table.name, "' of ", table.width, " columns cannot be cut into ",
            least, " parts that are multiples of ", spec_.column_align,
            "; change the width, the parts or the alignment, or cut by rows");
  }
  static int64_t parts_by_rows(const EmbeddingTable& table, int64_t least) {
    require(table.parts <= table.rows, "table '", table.name, "' has ", table.rows,
            " rows and cannot be cut into ", table.parts, " parts; give fewer");
    return std::min(least, table.rows);
  }
  void append(size_t t, bool by_columns, int64_t parts, std::vector<TableShard>& shards) const {
    const int64_t size = by_columns ? tables_[t].width : tables_[t].rows;
    const auto boundary = [&](int64_t part) {
      return static_cast<int64_t>(static_cast<__int128>(size) * part / parts);
    };
    for (int64_t part = 0; part < parts; ++part) {
      TableShard shard = whole_[t];
      (by_columns ? shard.column_begin : shard.row_begin) = boundary(part);
      (by_columns ? shard.column_end : shard.row_end) = boundary(part + 1);
      price(tables_[t], spec_, shard);
      shards.push_back(shard);
    }
    check_parts(std::ssize(shards), "shards of tables");
  }

  const std::vector<EmbeddingTable>& tables_;
  const TableShardingSpec& spec_;
  std::vector<TableShard> whole_;
  int64_t total_ = 0;
};

auto order_of(const TableShard& shard) {
  return std::tuple(shard.table, shard.column_begin, shard.row_begin);
}

void check_shard(const TablePlan& plan, const TableShard& shard) {
  require(shard.table >= 0 && shard.table < std::ssize(plan.tables), "a shard is of table ",
          shard.table, ", and there are ", plan.tables.size());
  const EmbeddingTable& table = plan.tables[at(shard.table)];
  require(shard.rank >= 0 && shard.rank < plan.ranks, "a shard of table '", table.name,
          "' is on rank ", shard.rank, " of ", plan.ranks);
  require(shard.row_begin >= 0 && shard.row_begin < shard.row_end && shard.row_end <= table.rows &&
              shard.column_begin >= 0 && shard.column_begin < shard.column_end &&
              shard.column_end <= table.width,
          "a shard of table '", table.name, "' has rows ", shard.row_begin, " to ", shard.row_end,
          " and columns ", shard.column_begin, " to ", shard.column_end, ", and the table is ",
          table.rows, " x ", table.width);
}

/// Shards that do not overlap and have as many values as their table cover it.
void check_cover(const TablePlan& plan) {
  std::vector<int64_t> values(plan.tables.size());
  for (size_t a = 0; a < plan.shards.size(); ++a) {
    const TableShard& one = plan.shards[a];
    values[at(one.table)] += one.rows() * one.columns();
    for (size_t b = a + 1; b < plan.shards.size() && plan.shards[b].table == one.table; ++b) {
      const TableShard& other = plan.shards[b];
      require(one.row_end <= other.row_begin || other.row_end <= one.row_begin ||
                  one.column_end <= other.column_begin || other.column_end <= one.column_begin,
              "two shards of table '", plan.tables[at(one.table)].name, "' overlap at row ",
              std::max(one.row_begin, other.row_begin), ", column ",
              std::max(one.column_begin, other.column_begin));
    }
  }
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const EmbeddingTable& table = plan.tables[t];
    require(values[t] == table.rows * table.width, "the shards of table '", table.name, "' have ",
            values[t], " values of ", table.rows * table.width);
  }
}

}  // namespace

TablePlan plan_tables(const std::vector<EmbeddingTable>& tables, const TableShardingSpec& spec) {
  check_spec(spec);
  require(!tables.empty(), "there are no tables; give one or more");
  for (const EmbeddingTable& table : tables) check_table(table);
  TablePlan plan{spec.ranks, tables, TableCutter(tables, spec).cut()};
  WorkProblem problem;
  problem.bins.assign(at(spec.ranks), WorkBin{kNoLimit, spec.memory.value, 0});
  for (const TableShard& shard : plan.shards) {
    if (shard.memory > spec.memory) {
      infeasible("a shard of table '", tables[at(shard.table)].name, "' takes ", shard.memory.value,
                 " bytes, and a rank has ", spec.memory.value,
                 "; cut the table into more parts, or take more ranks");
    }
    WorkItem item;
    item.unit_cost = shard.cost.value;
    item.unit_memory = shard.memory.value;
    problem.items.push_back(item);
  }
  for (const WorkSlice& slice : lpt(problem).slices) plan.shards[at(slice.item)].rank = slice.bin;
  return plan;
}

void check_tables(const TablePlan& plan) {
  check_ranks(plan.ranks);
  require(!plan.tables.empty(), "there are no tables; give one or more");
  for (const EmbeddingTable& table : plan.tables) {
    check_table(table);
    checked_product(table.rows, table.width, "the values of a table");
  }
  for (const TableShard& shard : plan.shards) check_shard(plan, shard);
  for (size_t s = 1; s < plan.shards.size(); ++s) {
    require(order_of(plan.shards[s - 1]) < order_of(plan.shards[s]), "shard ", s,
            " is out of order; sort shards by table, first column and first row");
  }
  check_cover(plan);
}

TablePlan on_fewer_ranks(const TablePlan& plan, int ranks) {
  require(ranks >= 1 && ranks <= plan.ranks, ranks, " ranks; give 1 to ", plan.ranks);
  TablePlan fewer = plan;
  fewer.ranks = ranks;
  for (TableShard& shard : fewer.shards) shard.rank %= ranks;
  return fewer;
}

uint64_t fingerprint(const TablePlan& plan) {
  Fingerprint print;
  print.add(plan.ranks);
  for (const EmbeddingTable& table : plan.tables) {
    print.add(table.name);
    for (const int64_t number : {table.rows, table.width}) print.add(number);
  }
  for (const TableShard& s : plan.shards) {
    for (const int64_t number : {int64_t{s.table}, int64_t{s.rank}, s.row_begin, s.row_end,
                                 s.column_begin, s.column_end}) {
      print.add(number);
    }
  }
  return print.value();
}

}  // namespace tutti::runtime
