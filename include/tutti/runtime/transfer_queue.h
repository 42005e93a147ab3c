// A queue of samples between jobs: a table whose rows are samples and whose columns are fields,
// written by some processes and read by others while both go on (TransferQueue of AsyncFlow,
// arXiv:2507.01663).
//
//     producers --bytes--> storage units <--bytes-- consumers
//         '---- what is there ----> controller <---- what is free ----'
//
// The controller knows which cells are there and who has which rows; it never sees their bytes,
// which lie in the storage units. Each task, such as "reward" or "train", consumes every row once,
// whatever other tasks do with it. Rows are a ring of steps: clear() frees a step's.
//
// Exactly once: claim() lends rows for a time, ack() consumes them, in one moment on the
// controller. The loan ends without an ack when its time is over or the consumer's connection
// ends; then the rows are lent again, and an ack of the old loan is refused. So each row of a task
// is acknowledged once. The work of a consumer on rows before its ack may be done again after its
// death. A producer that dies within put() leaves nothing; its cell can be put again.
//
// Staleness: publish() counts versions of the weights. A task with a bound s is lent no row whose
// version is below the last one - s; such a row is expired for this task, and is told of.
//
// Exact: the table with a consumption state for each task, the ring, groups of rows. Ours: loans
// and acks (the authors' public code marks rows when it lends them, so that a crash loses them),
// the connection's end, the balance, expiry, and that all is one controller.
//
// Addresses: "unix:/path", whose both ends must be one user, or "tcp:host:port", where both ends
//            prove that they hold `key`. Port 0 takes a free one, which address() tells. Bytes are
//            not encrypted.
// Owns:      a controller and a storage unit each have one thread and their sockets until they are
//            destroyed; a storage unit has the bytes. When a controller is gone, so is the queue;
//            when a unit is gone, so are its rows.
// Threads:   a client is for one thread at a time. Everything else: any.
// Errors:    throws Error. A wait that is over without success is kInfeasible, and says what was
//            waited for; kCommunication: the other end is gone or silent; then the client can
//            only be destroyed.
// Lifetime:  clients and servers end in any order.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/runtime/error.h"
#include "tutti/runtime/timeline.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

/// No bound of the staleness; and the version of a row that depends on no weights.
inline constexpr int64_t kAnyVersion = std::numeric_limits<int64_t>::max();

struct QueueSpec {
  int ring_steps = 2;  // steps that are kept at a time
  int64_t rows = 0;    // of each step (the global batch)
  std::vector<std::string> fields;
  std::vector<std::string> units;  // addresses of storage units; row r lies on unit r % units
  std::chrono::milliseconds lease{60'000};  // of rows that are claimed, and of cells being put
};

struct QueueTaskSpec {
  std::string name;
  std::vector<std::string> fields;      // that a row must have before it is claimed
  int64_t max_staleness = kAnyVersion;  // versions; 0: only of the newest weights
};

struct QueueRow {
  int64_t step = 0;
  int64_t row = 0;  // of its step
  auto operator<=>(const QueueRow&) const = default;
};

/// How a claim chooses among rows that are free.
struct ClaimSpec {
  int64_t rows = 1;    // at most
  int64_t least = 0;   // wait until so many are free; 0: as `rows`
  int64_t step = -1;   // only of this step; -1: the oldest first
  int64_t group = 1;   // rows g*k .. g*k + g-1 of a step only together
  int64_t window = 0;  // balance: of the `window` oldest free rows, those that a zig-zag deal by
                       // weight gives to one of window / rows consumers; 0: the oldest
  std::chrono::milliseconds timeout{60'000};
};

/// Rows that are lent to this client.
struct QueueBatch {
  int64_t id = 0;
  std::vector<QueueRow> rows;
  std::vector<int64_t> weights;
  std::vector<int64_t> versions;  // kAnyVersion: of no weights
  std::vector<std::string> fields;
  std::vector<int64_t> tokens;  // rows * fields: which put of the cell it is
};

/// The bytes of a batch: cell(r, f) of its rows and fields.
struct QueueSamples {
  std::vector<std::string> bytes;  // rows * fields
  size_t fields = 0;
  const std::string& cell(size_t row, size_t field) const { return bytes[row * fields + field]; }
};

struct QueueTaskCounts {
  int64_t consumed = 0;  // rows acknowledged so far
  int64_t lent = 0;      // now
  int64_t free = 0;      // now
  int64_t lapsed = 0;    // rows whose loan ended without an ack, so far
  int64_t expired = 0;   // rows that were too stale, so far
};

class TUTTI_RUNTIME_API StorageUnit {
 public:
  /// `budget`: bytes of samples that it holds at most; a put beyond is refused.
  StorageUnit(const std::string& address, Bytes budget, std::string_view key = {});
  ~StorageUnit();
  /// As a client reaches it.
  const std::string& address() const;
  Bytes held() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class TUTTI_RUNTIME_API QueueController {
 public:
  QueueController(const std::string& address, const QueueSpec& spec, std::string_view key = {});
  ~QueueController();
  const std::string& address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class TUTTI_RUNTIME_API QueueClient {
 public:
  /// Of the controller at `address`, for which it waits at most `timeout`. Storage units are
  /// connected to when they are first needed, with the same key.
  explicit QueueClient(const std::string& address, std::string_view key = {},
                       std::chrono::milliseconds timeout = std::chrono::seconds(30));
  ~QueueClient();

  /// From any thread: ends a call that waits, with kCommunication, and all later ones.
  void interrupt();

  /// Registers a task: once, or again with equal words. A task begins with all rows that are
  /// there.
  void add_task(const QueueTaskSpec& task);

  struct Put {
    QueueRow row;
    std::string field;
    std::string form;               // type and shape as words; equal for a field within a step
    int64_t version = kAnyVersion;  // of the weights that made it
    int64_t weight = -1;            // of the row, for the balance, such as tokens; -1: says none
    std::chrono::milliseconds timeout{60'000};  // waits while the ring has no room for the step,
                                                // or somebody else is putting the cell
  };
  /// False where the cell was there already, as from a producer that died behind its put: then
  /// nothing has changed. Refused for a step that was cleared.
  bool put_if_absent(const Put& put, std::span<const std::byte> bytes);
  /// Refuses a second put.
  void put(const Put& put, std::span<const std::byte> bytes);

  QueueBatch claim(std::string_view task, const ClaimSpec& spec);
  QueueSamples fetch(const QueueBatch& batch);
  /// Consumes the rows, all or, where the loan has ended, none: then it throws kInfeasible.
  void ack(const QueueBatch& batch);
  /// Lends the rows for another lease from now on; throws kInfeasible where the loan has ended.
  void renew(const QueueBatch& batch);
  /// Gives rows back unread.
  void release(const QueueBatch& batch);

  /// Waits until every task has consumed each row of the step, or seen it expire.
  void drain(int64_t step, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// Frees a step. Refused while rows of it are lent or being put. Returns how many rows some task
  /// has neither consumed nor seen expire, summed over tasks.
  int64_t clear(int64_t step);

  /// The weights have a new version, above all before.
  void publish(int64_t version);
  /// The last version; waits until it is `at_least`. 0 before the first publish().
  int64_t version(int64_t at_least = 0,
                  std::chrono::milliseconds timeout = std::chrono::seconds(60));

  QueueTaskCounts counts(std::string_view task);
  /// Rows of this step that expired for the task.
  std::vector<QueueRow> expired(std::string_view task, int64_t step);
  /// The form of a field in a step; empty before the first put.
  std::string form(int64_t step, std::string_view field);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Jobs that hand micro-batches on, such as generation, reward, training, as a timeline with one
/// rank each: streamed, a job begins with the first micro-batch that is there; else with the last.
struct StreamedSpec {
  int micro_batches = 8;
  std::vector<Nanoseconds> stages;  // what a job takes for one micro-batch
  Bytes message{1 << 10};
  bool streamed = true;
};
TUTTI_RUNTIME_API Timeline streamed_timeline(const StreamedSpec& spec);

}  // namespace tutti::runtime
