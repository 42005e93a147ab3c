#include "tutti/runtime/row_gather.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kHostLine = 64;
constexpr int64_t kRowsOfRun = 256;  // that a thread takes at once
constexpr int64_t kRowsAhead = 8;    // asked of the memory before they are copied
constexpr int64_t kLinesAhead = 4;   // of each; the memory follows long rows by itself

/// Rows of one gather, which threads take run by run.
struct GatherJob {
  std::vector<int64_t> kept;  // ids, where they must outlive the call
  std::span<const int64_t> ids;
  std::byte* target = nullptr;
  int64_t taken = 0;   // rows, under the mutex
  int64_t copied = 0;  // likewise
  bool is_over() const { return copied == std::ssize(ids); }
};

void check_row_table(const RowTable& table) {
  require(table.data != nullptr && table.rows >= 1, "the table has ", table.rows,
          " rows at address ", reinterpret_cast<uintptr_t>(table.data),
          "; give 1 or more, and where they are");
  const int64_t element = table.element.value;
  require(element >= 1 && table.row.value >= 1 && table.row.value % element == 0, "a row has ",
          table.row.value, " bytes and an element ", element, "; give whole elements, 1 or more");
  require(table.stride.value >= table.row.value && table.stride.value % element == 0, "rows of ",
          table.row.value, " bytes are ", table.stride.value,
          " apart; give a multiple of the element's ", element, " that is no less than a row");
  checked_product(table.rows, table.stride.value, "the bytes of the table");
}

}  // namespace

class RowGather::Impl {
 public:
  Impl(const RowTable& given, int threads) : table(given) {
    if (table.stride == Bytes(0)) table.stride = table.row;
    check_row_table(table);
    require(threads >= -1 && threads <= 1024, threads, " threads; give 0 to 1024, or -1");
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    const int count = threads >= 0 ? threads : std::clamp(cores - 1, 1, 8);
    counters.line = Bytes(kHostLine);
    try {
      for (int i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~Impl() { end(); }

  void check(std::span<const int64_t> ids, const void* target, Bytes room) const;
  void count(std::span<const int64_t> ids);
  std::shared_ptr<GatherJob> post(std::shared_ptr<GatherJob> job);
  void help(GatherJob& job);

  RowTable table;
  mutable std::mutex mutex;
  std::condition_variable posted, over;
  std::deque<std::shared_ptr<GatherJob>> queue;  // with rows that nobody has taken
  std::map<int64_t, std::shared_ptr<GatherJob>> tickets;
  int64_t last_ticket = 0;
  RowGatherCounters counters;

 private:
  void work();
  void end();
  bool take(std::unique_lock<std::mutex>& lock, GatherJob& job);
  void copy(const GatherJob& job, int64_t begin, int64_t end) const;
  const std::byte* row_at(int64_t id) const {
    return static_cast<const std::byte*>(table.data) + id * table.stride.value;
  }

  bool ends = false;
  std::vector<std::thread> workers;
};

void RowGather::Impl::check(std::span<const int64_t> ids, const void* target, Bytes room) const {
  for (const int64_t id : ids) {
    require(id >= 0 && id < table.rows, "row ", id, " is asked for, and the table has rows 0 to ",
            table.rows - 1);
  }
  const int64_t bytes = checked_product(std::ssize(ids), table.row.value, "the gathered bytes");
  require(room.value >= bytes, ids.size(), " rows need ", bytes, " bytes, and the target has ",
          room.value);
  require(bytes == 0 || target != nullptr, "there is no target for ", bytes, " bytes");
  const auto first = reinterpret_cast<uintptr_t>(target);
  const auto begin = reinterpret_cast<uintptr_t>(table.data);
  const auto size = static_cast<uintptr_t>(table.rows * table.stride.value);
  require(bytes == 0 || first >= begin + size || first + at(bytes) <= begin,
          "the target lies in the table, whose rows it would change; give other memory");
}

void RowGather::Impl::count(std::span<const int64_t> ids) {
  ++counters.gathers;
  counters.rows += std::ssize(ids);
  counters.wanted += table.row * std::ssize(ids);
  for (const int64_t id : ids) {
    const auto begin = reinterpret_cast<uintptr_t>(row_at(id));
    const uintptr_t end = begin + at(table.row.value) - 1;
    counters.lines += static_cast<int64_t>(end / kHostLine - begin / kHostLine) + 1;
  }
}

std::shared_ptr<GatherJob> RowGather::Impl::post(std::shared_ptr<GatherJob> job) {
  if (job->ids.empty()) return job;
  const std::lock_guard lock(mutex);
  queue.push_back(job);
  posted.notify_all();
  return job;
}

/// Copies one run of the job. False if nobody has to.
bool RowGather::Impl::take(std::unique_lock<std::mutex>& lock, GatherJob& job) {
  const int64_t begin = job.taken;
  const int64_t end = std::min(begin + kRowsOfRun, std::ssize(job.ids));
  if (begin == end) return false;
  job.taken = end;
  if (end == std::ssize(job.ids)) {
    std::erase_if(queue, [&](const auto& queued) { return queued.get() == &job; });
  }
  lock.unlock();
  copy(job, begin, end);
  lock.lock();
  job.copied += end - begin;
  if (job.is_over()) over.notify_all();
  return true;
}

void RowGather::Impl::copy(const GatherJob& job, int64_t begin, int64_t end) const {
  const size_t bytes = at(table.row.value);
  const int64_t lines = std::min(kLinesAhead, (table.row.value - 1) / kHostLine + 1);
  for (int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      const std::byte* ahead = row_at(job.ids[at(i + kRowsAhead)]);
      for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(ahead + line * kHostLine);
    }
    std::memcpy(job.target + i * table.row.value, row_at(job.ids[at(i)]), bytes);
  }
}

void RowGather::Impl::work() {
  std::unique_lock lock(mutex);
  while (true) {
    posted.wait(lock, [this] { return ends || !queue.empty(); });
    if (queue.empty()) return;
    const std::shared_ptr<GatherJob> job = queue.front();
    take(lock, *job);
  }
}

/// Copies what nobody has taken, and waits for the rest.
void RowGather::Impl::help(GatherJob& job) {
  std::unique_lock lock(mutex);
  while (take(lock, job)) {
  }
  over.wait(lock, [&] { return job.is_over(); });
}

void RowGather::Impl::end() {
  {
    const std::lock_guard lock(mutex);
    ends = true;
    posted.notify_all();
  }
  for (std::thread& worker : workers) worker.join();
  // Without a thread nobody has copied what was begun and not waited for; its target may be gone.
}

RowGather::RowGather(const RowTable& table, int threads)
    : impl_(std::make_unique<Impl>(table, threads)) {}
RowGather::~RowGather() = default;

void RowGather::gather(std::span<const int64_t> ids, void* target, Bytes room) {
  impl_->check(ids, target, room);
  auto job = std::make_shared<GatherJob>();
  job->ids = ids;
  job->target = static_cast<std::byte*>(target);
  impl_->count(ids);
  impl_->help(*impl_->post(std::move(job)));
}

int64_t RowGather::begin(std::span<const int64_t> ids, void* target, Bytes room) {
  impl_->check(ids, target, room);
  auto job = std::make_shared<GatherJob>();
  job->kept.assign(ids.begin(), ids.end());
  job->ids = job->kept;
  job->target = static_cast<std::byte*>(target);
  impl_->count(ids);
  const int64_t ticket = ++impl_->last_ticket;
  impl_->tickets[ticket] = job;
  impl_->post(std::move(job));
  return ticket;
}

bool RowGather::done(int64_t ticket) const {
  const auto found = impl_->tickets.find(ticket);
  require(found != impl_->tickets.end(), "ticket ", ticket,
          " is unknown, or was waited for; ask for what begin() has given");
  const std::lock_guard lock(impl_->mutex);
  return found->second->is_over();
}

void RowGather::wait(int64_t ticket) {
  const auto found = impl_->tickets.find(ticket);
  require(found != impl_->tickets.end(), "ticket ", ticket,
          " is unknown, or was waited for; wait once for what begin() has given");
  impl_->help(*found->second);
  impl_->tickets.erase(found);
}

RowGatherCounters RowGather::counters() const { return impl_->counters; }

}  // namespace tutti::runtime
