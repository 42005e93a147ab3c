#include "src/runtime/queue/table.h"

#include <algorithm>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime::queue {
namespace {

std::string name_of(const QueueRow& row) { return words("row ", row.row, " of step ", row.step); }

void check_spec(const QueueSpec& spec) {
  require(spec.ring_steps >= 1 && spec.ring_steps <= kMostRanks, spec.ring_steps,
          " steps in the ring; give 1 or more, at most 2^20");
  require(spec.rows >= 1, spec.rows, " rows in a step; give 1 or more");
  require(!spec.fields.empty(), "the queue has no fields; name at least one");
  require(!spec.units.empty(), "the queue has no storage units; give the address of at least one");
  require(spec.lease.count() >= 1, "a lease of ", spec.lease.count(), " ms; give 1 or more");
  const int64_t cells =
      checked_product(checked_product(spec.ring_steps, spec.rows, "the rows of the ring"),
                      std::ssize(spec.fields), "the cells of the ring");
  check_parts(cells, "cells of the ring");
  const std::set<std::string> names(spec.fields.begin(), spec.fields.end());
  require(names.size() == spec.fields.size(), "two fields of the queue have one name");
}

}  // namespace

void check_claim(const ClaimSpec& spec, int64_t rows_of_step) {
  require(spec.rows >= 1 && spec.rows <= rows_of_step, "a claim of ", spec.rows,
          " rows; give 1 to ", rows_of_step, ", the rows of a step");
  require(spec.least >= 0 && spec.least <= spec.rows, "a claim of at least ", spec.least, " and ",
          spec.rows, " rows at most; give least <= rows");
  require(spec.group >= 1 && spec.rows % spec.group == 0 && spec.least % spec.group == 0,
          "a claim of ", spec.least, " to ", spec.rows, " rows in groups of ", spec.group,
          "; give multiples of the group");
  require(spec.window == 0 || (spec.window >= spec.rows && spec.window % spec.rows == 0),
          "a window of ", spec.window, " rows is no multiple of the ", spec.rows,
          " rows of a claim");
  require(spec.timeout.count() >= 0, "a timeout of ", spec.timeout.count(), " ms is negative");
}

Table::Table(const QueueSpec& spec)
    : spec_(spec),
      lease_(std::chrono::nanoseconds(spec.lease).count()),
      cleared_(size_t(std::max(spec.ring_steps, 1)), -1) {
  check_spec(spec);
}

int64_t Table::field_of(std::string_view name) const {
  const auto found = std::find(spec_.fields.begin(), spec_.fields.end(), name);
  std::string known;
  for (const std::string& field : spec_.fields) known += (known.empty() ? "" : ", ") + field;
  require(found != spec_.fields.end(), "the queue has no field '", name, "'; it has ", known);
  return found - spec_.fields.begin();
}

void Table::expect_row(const QueueRow& row) const {
  require(row.step >= 0 && row.row >= 0 && row.row < spec_.rows, name_of(row),
          " does not exist; steps begin with 0 and have ", spec_.rows, " rows");
}

Table::StepState* Table::open(int64_t step) {
  const auto place = size_t(step % spec_.ring_steps);
  require(step > cleared_[place], "step ", step,
          " was cleared (the last one of its place in the ring is ", cleared_[place],
          "); put rows of steps that are kept");
  if (const auto found = steps_.find(step); found != steps_.end()) return &found->second;
  for (const auto& [kept, unused] : steps_) {
    if (kept % spec_.ring_steps != int64_t(place)) continue;
    require(kept < step, "step ", step, " is older than step ", kept,
            ", which has its place in the ring; put rows of steps that are kept");
    return nullptr;
  }
  StepState fresh;
  fresh.rows.resize(size_t(spec_.rows));
  for (RowState& row : fresh.rows) row.cells.resize(spec_.fields.size());
  fresh.forms.resize(spec_.fields.size());
  for (auto& [name, task] : tasks_) task.uses[step].resize(size_t(spec_.rows), Use::kNotYet);
  return &steps_.emplace(step, std::move(fresh)).first->second;
}

std::optional<Reservation> Table::reserve(int64_t owner, const CellName& cell,
                                          std::string_view form, int64_t now) {
  expect_row(cell.row);
  StepState* step = open(cell.row.step);
  if (step == nullptr) return std::nullopt;
  std::string& known = step->forms[at(cell.field)];
  require(known.empty() || known == form, "field '", spec_.fields[at(cell.field)], "' is ", known,
          " in step ", cell.row.step, ", and a put brings ", form,
          "; a field has one form within a step");
  CellState& target = step->rows[size_t(cell.row.row)].cells[at(cell.field)];
  if (target.is_there) return Reservation{0, oldest()};
  if (target.token != 0) return std::nullopt;
  target.token = next_token_++;
  pending_[target.token] = {owner, now + lease_, cell};
  if (known.empty()) known = form;
  return Reservation{target.token, oldest()};
}

void Table::commit(int64_t owner, int64_t token, int64_t version, int64_t weight) {
  const auto found = pending_.find(token);
  if (found == pending_.end() || found->second.owner != owner) {
    infeasible("a put took longer than the lease of ", spec_.lease.count(),
               " ms, and is void; put the cell again, or give a longer lease");
  }
  const CellName cell = found->second.cell;
  pending_.erase(found);
  RowState& row = row_of(cell.row);
  row.cells[at(cell.field)].is_there = true;
  row.version = std::min(row.version, version);
  if (weight >= 0) row.weight = weight;
  for (auto& [name, task] : tasks_) offer(task, cell.row);
}

void Table::withdraw(int64_t owner, int64_t token) {
  const auto found = pending_.find(token);
  if (found == pending_.end() || found->second.owner != owner) return;
  row_of(found->second.cell.row).cells[at(found->second.cell.field)].token = 0;
  pending_.erase(found);
}

void Table::add_task(const QueueTaskSpec& spec) {
  require(!spec.name.empty(), "a task of the queue has no name");
  require(!spec.fields.empty(), "task '", spec.name, "' has no fields; name at least one");
  require(spec.max_staleness >= 0, "task '", spec.name, "' has a staleness of ", spec.max_staleness,
          " versions; give 0 or more");
  TaskState task;
  task.spec = spec;
  for (const std::string& field : spec.fields) task.fields.push_back(field_of(field));
  if (const auto known = tasks_.find(spec.name); known != tasks_.end()) {
    require(known->second.spec.fields == spec.fields &&
                known->second.spec.max_staleness == spec.max_staleness,
            "task '", spec.name, "' was registered with other fields or another staleness");
    return;
  }
  TaskState& added = tasks_.emplace(spec.name, std::move(task)).first->second;
  for (const auto& [number, step] : steps_) {
    added.uses[number].resize(size_t(spec_.rows), Use::kNotYet);
    for (int64_t r = 0; r < spec_.rows; ++r) offer(added, {number, r});
  }
}

Table::TaskState& Table::task_of(std::string_view name) {
  return const_cast<TaskState&>(std::as_const(*this).task_of(name));
}
const Table::TaskState& Table::task_of(std::string_view name) const {
  const auto found = tasks_.find(name);
  require(found != tasks_.end(), "the queue has no task '", name, "'; add_task() first");
  return found->second;
}
Table::Use& Table::use_of(TaskState& task, const QueueRow& row) {
  return task.uses.at(row.step)[size_t(row.row)];
}

bool Table::is_complete(const TaskState& task, const RowState& row) const {
  return std::all_of(task.fields.begin(), task.fields.end(),
                     [&](int64_t field) { return row.cells[at(field)].is_there; });
}
bool Table::is_stale(const TaskState& task, const RowState& row) const {
  return row.version != kAnyVersion && row.version < version_ &&
         version_ - row.version > task.spec.max_staleness;
}

void Table::offer(TaskState& task, const QueueRow& name) {
  Use& use = use_of(task, name);
  const RowState& row = row_of(name);
  if ((use != Use::kNotYet && use != Use::kFree) || !is_complete(task, row)) return;
  // Also a row that is free already: a put of another field may have made it older.
  if (is_stale(task, row)) {
    use = Use::kExpired;
    ++task.expired;
    task.free.erase(name);
    return;
  }
  use = Use::kFree;
  task.free.insert(name);
}

void Table::expire_stale(TaskState& task) {
  for (auto it = task.free.begin(); it != task.free.end();) {
    if (!is_stale(task, row_of(*it))) {
      ++it;
      continue;
    }
    use_of(task, *it) = Use::kExpired;
    ++task.expired;
    it = task.free.erase(it);
  }
}

/// The oldest free rows, whole groups only.
std::vector<QueueRow> Table::candidates(const TaskState& task, const ClaimSpec& spec,
                                        int64_t most) const {
  std::vector<QueueRow> rows;
  for (auto it = task.free.begin(); it != task.free.end() && std::ssize(rows) < most; ++it) {
    if ((spec.step >= 0 && it->step != spec.step) || it->row % spec.group != 0) continue;
    std::vector<QueueRow> group;
    for (auto next = it; next != task.free.end() && std::ssize(group) < spec.group; ++next) {
      if (next->step != it->step || next->row != it->row + std::ssize(group)) break;
      group.push_back(*next);
    }
    if (std::ssize(group) == spec.group) rows.insert(rows.end(), group.begin(), group.end());
  }
  return rows;
}

/// Groups of the window by falling weight, dealt to and fro over its consumers; the first one's.
std::vector<QueueRow> Table::deal(const std::vector<QueueRow>& window,
                                  const ClaimSpec& spec) const {
  const int64_t groups = std::ssize(window) / spec.group;
  const int64_t wanted = spec.rows / spec.group;
  const int64_t consumers = std::max<int64_t>(groups / wanted, 1);
  std::vector<std::pair<int64_t, int64_t>> order;  // minus weight, place
  for (int64_t g = 0; g < groups; ++g) {
    int64_t weight = 0;
    for (int64_t i = 0; i < spec.group; ++i) {
      weight = checked_sum(weight, row_of(window[at(g * spec.group + i)]).weight, "a weight");
    }
    order.emplace_back(-weight, g);
  }
  std::sort(order.begin(), order.end());
  std::vector<QueueRow> dealt;
  for (int64_t turn = 0; turn < wanted; ++turn) {
    const int64_t place = turn * consumers + (turn % 2 == 0 ? 0 : consumers - 1);
    if (place >= groups) break;
    const int64_t first = order[at(place)].second * spec.group;
    for (int64_t i = 0; i < spec.group; ++i) dealt.push_back(window[at(first + i)]);
  }
  return dealt;
}

std::optional<QueueBatch> Table::claim(int64_t owner, std::string_view name, const ClaimSpec& spec,
                                       int64_t now) {
  check_claim(spec, spec_.rows);
  TaskState& task = task_of(name);
  std::vector<QueueRow> rows = candidates(task, spec, std::max(spec.rows, spec.window));
  const int64_t least = std::max(spec.least == 0 ? spec.rows : spec.least, spec.group);
  if (std::ssize(rows) < least) return std::nullopt;
  if (spec.window > 0 && std::ssize(rows) >= spec.rows) rows = deal(rows, spec);
  rows.resize(std::min(rows.size(), size_t(spec.rows)));
  return lend(task, std::move(rows), owner, now);
}

QueueBatch Table::lend(TaskState& task, std::vector<QueueRow> rows, int64_t owner, int64_t now) {
  QueueBatch batch;
  batch.id = next_batch_++;
  batch.fields = task.spec.fields;
  for (const QueueRow& name : rows) {
    const RowState& row = row_of(name);
    task.free.erase(name);
    use_of(task, name) = Use::kLent;
    batch.weights.push_back(row.weight);
    batch.versions.push_back(row.version);
    for (const int64_t field : task.fields) batch.tokens.push_back(row.cells[at(field)].token);
  }
  task.lent += std::ssize(rows);
  batch.rows = rows;
  loans_[batch.id] = {owner, now + lease_, task.spec.name, std::move(rows)};
  return batch;
}

Table::Loan& Table::loan_of(int64_t owner, int64_t batch) {
  const auto found = loans_.find(batch);
  if (found == loans_.end() || found->second.owner != owner) {
    infeasible("batch ", batch, " is not lent to this client: it was acknowledged or released, or ",
               "its lease of ", spec_.lease.count(),
               " ms is over and its rows go to others; renew() in time, or give a longer lease");
  }
  return found->second;
}

void Table::ack(int64_t owner, int64_t batch) {
  const Loan& loan = loan_of(owner, batch);
  TaskState& task = task_of(loan.task);
  for (const QueueRow& row : loan.rows) use_of(task, row) = Use::kConsumed;
  task.consumed += std::ssize(loan.rows);
  task.lent -= std::ssize(loan.rows);
  loans_.erase(batch);
}

void Table::renew(int64_t owner, int64_t batch, int64_t now) {
  loan_of(owner, batch).end = now + lease_;
}

void Table::release(int64_t owner, int64_t batch) {
  loan_of(owner, batch);
  end_loan(loans_.find(batch), false);
}

void Table::end_loan(std::map<int64_t, Loan>::iterator loan, bool lapsed) {
  TaskState& task = task_of(loan->second.task);
  task.lent -= std::ssize(loan->second.rows);
  if (lapsed) task.lapsed += std::ssize(loan->second.rows);
  for (const QueueRow& row : loan->second.rows) {
    use_of(task, row) = Use::kNotYet;
    offer(task, row);
  }
  loans_.erase(loan);
}

int64_t Table::unread(int64_t step) const {
  int64_t rows = 0;
  for (const auto& [name, task] : tasks_) {
    const auto uses = task.uses.find(step);
    if (uses == task.uses.end()) {
      rows += spec_.rows;
      continue;
    }
    for (const Use use : uses->second) rows += use != Use::kConsumed && use != Use::kExpired;
  }
  return rows;
}

int64_t Table::clear(int64_t step) {
  const auto found = steps_.find(step);
  require(found != steps_.end(), "step ", step,
          " is not in the ring: nothing of it was put, or it was cleared before");
  for (const auto& [token, pending] : pending_) {
    require(pending.cell.row.step != step, name_of(pending.cell.row),
            " is being put; clear the step when its producers are done");
  }
  for (const auto& [id, loan] : loans_) {
    for (const QueueRow& row : loan.rows) {
      require(row.step != step, name_of(row), " is lent to task '", loan.task,
              "'; clear the step when it is acknowledged");
    }
  }
  const int64_t left = unread(step);
  for (auto& [name, task] : tasks_) {
    for (int64_t r = 0; r < spec_.rows; ++r) task.free.erase({step, r});
    task.uses.erase(step);
  }
  cleared_[size_t(step % spec_.ring_steps)] = step;
  steps_.erase(found);
  return left;
}

void Table::publish(int64_t version) {
  require(version > version_, "version ", version, " is not above version ", version_,
          ", the last one; publish rising numbers");
  require(version < kAnyVersion, "version ", version, " is beyond what a version may be");
  version_ = version;
  for (auto& [name, task] : tasks_) expire_stale(task);
}

void Table::drop_owner(int64_t owner) {
  for (auto it = loans_.begin(); it != loans_.end();) {
    const auto loan = it++;
    if (loan->second.owner == owner) end_loan(loan, true);
  }
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto pending = it++;
    if (pending->second.owner == owner) withdraw(owner, pending->first);
  }
}

bool Table::expire(int64_t now) {
  const size_t before = loans_.size() + pending_.size();
  for (auto it = loans_.begin(); it != loans_.end();) {
    const auto loan = it++;
    if (loan->second.end <= now) end_loan(loan, true);
  }
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto pending = it++;
    if (pending->second.end <= now) withdraw(pending->second.owner, pending->first);
  }
  return loans_.size() + pending_.size() < before;
}

int64_t Table::next_end() const {
  int64_t end = std::numeric_limits<int64_t>::max();
  for (const auto& [id, loan] : loans_) end = std::min(end, loan.end);
  for (const auto& [token, pending] : pending_) end = std::min(end, pending.end);
  return end;
}

int64_t Table::oldest() const {
  std::vector<int64_t> first;  // of each place of the ring: the least step that may be put
  for (const int64_t cleared : cleared_) first.push_back(cleared + 1);
  for (const auto& [step, unused] : steps_) first[size_t(step % spec_.ring_steps)] = step;
  return *std::min_element(first.begin(), first.end());
}

QueueTaskCounts Table::counts(std::string_view name) const {
  const TaskState& task = task_of(name);
  return {task.consumed, task.lent, std::ssize(task.free), task.lapsed, task.expired};
}

std::vector<QueueRow> Table::expired(std::string_view name, int64_t step) const {
  const TaskState& task = task_of(name);
  const auto uses = task.uses.find(step);
  require(uses != task.uses.end(), "step ", step, " is not in the ring");
  std::vector<QueueRow> rows;
  for (int64_t r = 0; r < spec_.rows; ++r) {
    if (uses->second[at(r)] == Use::kExpired) rows.push_back({step, r});
  }
  return rows;
}

std::string Table::form(int64_t step, int64_t field) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? "" : found->second.forms[at(field)];
}

std::string Table::why_not_claim(std::string_view name, const ClaimSpec& spec) const {
  const TaskState& task = task_of(name);
  const int64_t least = std::max(spec.least == 0 ? spec.rows : spec.least, spec.group);
  return words(candidates(task, spec, least).size(), " of ", least, " rows are free for task '",
               name, "', ", task.lent, " are lent and ", task.expired, " expired");
}

std::string Table::why_not_reserve(const CellName& cell) const {
  if (steps_.find(cell.row.step) != steps_.end()) {
    return words("another producer is putting field '", spec_.fields[at(cell.field)], "' of ",
                 name_of(cell.row));
  }
  return words("the ring of ", spec_.ring_steps, " steps has no room for step ", cell.row.step,
               "; clear an older one");
}

}  // namespace tutti::runtime::queue
