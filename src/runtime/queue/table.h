// The knowledge of a queue's controller: which cells are there, which rows are lent to whom, which
// a task has consumed. No sockets and no clock of its own: the time is an argument, so that tests
// step through it.
//
// Units:   times in nanoseconds of one steady clock. An owner is a connection of a client.
// Errors:  throws Error. A function that returns nothing (std::nullopt) has changed nothing and
//          may succeed later; why_not() says for what it waits.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/runtime/transfer_queue.h"

namespace tutti::runtime::queue {

struct CellName {
  QueueRow row;
  int64_t field = 0;
};

struct Reservation {
  int64_t token = 0;   // 0: the cell was there already
  int64_t oldest = 0;  // no older step can be put any more: units may forget those
};

class Table {
 public:
  explicit Table(const QueueSpec& spec);

  const QueueSpec& spec() const { return spec_; }
  int64_t field_of(std::string_view name) const;

  /// The right to put a cell for one lease. Nothing where the ring has no room or another owner is
  /// putting it.
  std::optional<Reservation> reserve(int64_t owner, const CellName& cell, std::string_view form,
                                     int64_t now);
  /// The cell's bytes are on their unit.
  void commit(int64_t owner, int64_t token, int64_t version, int64_t weight);
  /// The put did not come to its end.
  void withdraw(int64_t owner, int64_t token);

  void add_task(const QueueTaskSpec& task);
  std::optional<QueueBatch> claim(int64_t owner, std::string_view task, const ClaimSpec& spec,
                                  int64_t now);
  void ack(int64_t owner, int64_t batch);
  void renew(int64_t owner, int64_t batch, int64_t now);
  void release(int64_t owner, int64_t batch);

  /// Rows of the step that are to be consumed, summed over tasks.
  int64_t unread(int64_t step) const;
  int64_t clear(int64_t step);
  void publish(int64_t version);
  int64_t version() const { return version_; }

  /// The owner is gone: its loans end, and what it was putting is as never begun.
  void drop_owner(int64_t owner);
  /// Ends the loans whose time is over; true if there was one.
  bool expire(int64_t now);
  /// When the next loan ends; INT64_MAX: there is none.
  int64_t next_end() const;

  QueueTaskCounts counts(std::string_view task) const;
  std::vector<QueueRow> expired(std::string_view task, int64_t step) const;
  std::string form(int64_t step, int64_t field) const;
  std::string why_not_claim(std::string_view task, const ClaimSpec& spec) const;
  std::string why_not_reserve(const CellName& cell) const;

 private:
  struct CellState {
    int64_t token = 0;  // of the put; 0: nobody has begun one
    bool is_there = false;
  };
  struct RowState {
    std::vector<CellState> cells;
    int64_t version = kAnyVersion;  // the least of its fields
    int64_t weight = 1;
  };
  struct StepState {
    std::vector<RowState> rows;
    std::vector<std::string> forms;
  };
  enum class Use : uint8_t { kNotYet, kFree, kLent, kConsumed, kExpired };
  struct TaskState {
    QueueTaskSpec spec;
    std::vector<int64_t> fields;
    std::map<int64_t, std::vector<Use>> uses;  // by step
    std::set<QueueRow> free;
    int64_t consumed = 0, lent = 0, lapsed = 0, expired = 0;
  };
  struct Loan {
    int64_t owner = 0;
    int64_t end = 0;
    std::string task;
    std::vector<QueueRow> rows;
  };
  struct Pending {
    int64_t owner = 0;
    int64_t end = 0;
    CellName cell;
  };

  void expect_row(const QueueRow& row) const;
  /// The step's place in the ring; null where the ring holds an older one there.
  StepState* open(int64_t step);
  RowState& row_of(const QueueRow& row) { return steps_.at(row.step).rows[size_t(row.row)]; }
  const RowState& row_of(const QueueRow& row) const {
    return steps_.at(row.step).rows[size_t(row.row)];
  }
  TaskState& task_of(std::string_view name);
  const TaskState& task_of(std::string_view name) const;
  Use& use_of(TaskState& task, const QueueRow& row);
  bool is_complete(const TaskState& task, const RowState& row) const;
  bool is_stale(const TaskState& task, const RowState& row) const;
  void offer(TaskState& task, const QueueRow& row);
  void expire_stale(TaskState& task);
  std::vector<QueueRow> candidates(const TaskState& task, const ClaimSpec& spec,
                                   int64_t most) const;
  std::vector<QueueRow> deal(const std::vector<QueueRow>& window, const ClaimSpec& spec) const;
  QueueBatch lend(TaskState& task, std::vector<QueueRow> rows, int64_t owner, int64_t now);
  Loan& loan_of(int64_t owner, int64_t batch);
  void end_loan(std::map<int64_t, Loan>::iterator loan, bool lapsed);
  int64_t oldest() const;

  QueueSpec spec_;
  int64_t lease_;
  int64_t version_ = 0;
  int64_t next_token_ = 1, next_batch_ = 1;
  std::map<int64_t, StepState> steps_;  // those that are kept, at most ring_steps
  std::vector<int64_t> cleared_;        // of each place of the ring: the last step cleared
  std::map<std::string, TaskState, std::less<>> tasks_;
  std::map<int64_t, Loan> loans_;
  std::map<int64_t, Pending> pending_;  // by token
};

/// Refuses a claim that no table could serve.
void check_claim(const ClaimSpec& spec, int64_t rows_of_step);

}  // namespace tutti::runtime::queue
