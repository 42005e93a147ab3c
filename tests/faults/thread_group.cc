#include "tests/faults/thread_group.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "src/bootstrap/watch.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"
#include "tests/random/memory.h"
#include "tests/support/dice.h"

namespace tutti::faults {
namespace {

using random_calls::Call;
using random_calls::CallMemory;

/// An all-gather between threads.
class Table {
 public:
  explicit Table(int ranks) : cards_(static_cast<size_t>(ranks)) {}

  std::vector<std::string> exchange(int rank, std::string_view card) {
    std::unique_lock lock(mutex_);
    cards_[static_cast<size_t>(rank)] = card;
    if (++arrived_ == cards_.size()) complete_.notify_all();
    complete_.wait(lock, [this] { return arrived_ >= cards_.size(); });
    return cards_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::vector<std::string> cards_;
  size_t arrived_ = 0;
};

/// The first finding of any rank.
class Finding {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (text_.empty()) text_ = text;
    found_.store(true);
  }
  bool any() const { return found_.load(); }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::atomic<bool> found_{false};
  std::mutex mutex_;
  std::string text_;
};

class Rank {
 public:
  Rank(const GroupOptions& options, const Env& env, Table& table, Finding& finding)
      : options_(options), env_(env), table_(table), finding_(finding) {}

  bool open(int rank) {
    rank_ = rank;
    comm::CommunicatorOptions wanted;
    wanted.algorithms = registry::algorithms();
    if (options_.tamper) {
      wanted.tamper = [this](plan::Plan& plan) { options_.tamper(rank_, plan); };
    }
    if (!options_.models.empty()) wanted.model = &options_.models[static_cast<size_t>(rank)];
    comm::MembershipOptions& membership = wanted.membership;
    membership.env = &env_;
    membership.inherited = options_.inherited;
    if (options_.hosts > 1) {
      auto watch = bootstrap::Watch::create();
      if (!watch.ok()) return fail("watch", watch.status());
      watch_ = std::move(watch).value();
      wanted.watch = membership.watch = watch_.get();
    }
    membership.transports = registry::transports();
    membership.layout =
        exec::ArenaLayout(options_.ring_bytes, exec::PairExecutor::kPairBytes, options_.ranks);
    membership.wait_limit = monotonic_ns() + options_.making_ns;
    transport::Member& self = membership.self;
    self.rank = rank;
    self.ranks = options_.ranks;
    self.communicator = 0xfa017;
    self.host_id = "host-" + std::to_string(rank % options_.hosts);
    self.id.process = {0, options_.one_process ? 1 : static_cast<uint64_t>(rank) + 1};
    self.bind_address = "127.0.0.1";
    membership.exchange = [this](std::string_view card,
                                 const WaitLimit&) -> Result<std::vector<std::string>> {
      std::vector<std::string> cards = table_.exchange(rank_, card);
      const Status met = options_.after_meeting ? options_.after_meeting(rank_) : Status();
      if (!met.ok()) return met;
      return cards;
    };
    auto made = comm::Communicator::create(std::move(wanted));
    if (!made.ok() && options_.ended) options_.ended(rank, made.status());
    if (!made.ok()) return fail("create", made.status());
    communicator_ = std::move(made).value();
    return true;
  }

  comm::Communicator& communicator() { return *communicator_; }

  void run(const random_calls::Job& job) {
    for (const random_calls::Batch& batch : job.batches) {
      for (const Call& call : batch.calls) {
        if (finding_.any() || !run(call)) return;
      }
    }
  }

 private:
  bool fail(const std::string& what, const Status& why) {
    finding_.add(what + ": " + std::string(why.message()));
    return false;
  }
  bool run(const Call& call) {
    if (call.kind != random_calls::Kind::kCollective || call.problem.count == 0) return true;
    // Buffers stay where they are until the group ends: a tampered rank may still touch them.
    memory_.push_back(std::make_unique<CallMemory>(call, rank_, nullptr));
    CallMemory& memory = *memory_.back();
    be_late(call);
    const Status status = start(call, memory);
    if (!status.ok()) return found(call, std::string(status.message()));
    const std::string wrong = memory.check();
    return wrong.empty() || found(call, wrong);
  }

  Status start(const Call& call, const CallMemory& memory) {
    comm::CallOptions wanted;
    wanted.algorithm = call.options.algorithm;
    wanted.deterministic = call.options.deterministic;
    wanted.timeout_ns = options_.deadline_ns;
    communicator_->set_options(wanted);
    comm::Request request;
    request.collective = collective_of(call);
    request.type = static_cast<types::DataType>(call.problem.type);
    request.op = static_cast<types::ReduceOp>(call.problem.op);
    request.root = call.problem.root;
    request.count = call.problem.count;
    request.send = memory.send();
    request.recv = memory.recv();
    comm::Extras extras;
    if (!call.problem.scalars.empty()) {
      request.op = types::ReduceOp::kScaledSum;
      request.extras = &extras;
      reference::store(call.problem.type, extras.scalar.value.data(),
                       call.problem.scalars[static_cast<size_t>(rank_)]);
    }
    return communicator_->collectives().run(request);
  }

  static schedule::Collective collective_of(const Call& call) {
    const std::string_view name = reference::name_of(call.problem.collective);
    for (int i = 0; i < schedule::kCollectives; ++i) {
      const auto collective = static_cast<schedule::Collective>(i);
      if (schedule::name_of(collective) == name) return collective;
    }
    return schedule::Collective::kBarrier;
  }

  void be_late(const Call& call) const {
    const uint64_t chance = testing_support::mix(call.seed, static_cast<uint64_t>(rank_) + 1000);
    if (chance % 4 == 0) testing_support::sleep_ns((chance >> 8) % 400'000);
  }

  bool found(const Call& call, const std::string& what) {
    finding_.add("rank " + std::to_string(rank_) + " in " + random_calls::describe(call) + ": " +
                 what);
    return false;
  }

  const GroupOptions& options_;
  const Env& env_;
  Table& table_;
  Finding& finding_;
  int rank_ = 0;
  std::unique_ptr<bootstrap::Watch> watch_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::vector<std::unique_ptr<CallMemory>> memory_;
};

/// The objects that the communicators of a process share.
struct Surroundings {
  Surroundings() { config.spin_polls = 50; }

  Config config;
  Logger log{LogLevel::kOff};
  Env env{&config, &log, monotonic_ns};
};

std::string run_group(const GroupOptions& options, Finding& finding,
                      const std::function<void(int rank, Rank&)>& body) {
  Surroundings surroundings;
  surroundings.config.measures_at_start = options.measures;
  // A fault is planted in calls, and ranks that measure each other make some.
  surroundings.config.measures_host = !options.tamper;
  Table table(options.ranks);
  // Ranks end together, so that none takes memory away that another still reads.
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.ranks; ++i) {
    ranks.push_back(std::make_unique<Rank>(options, surroundings.env, table, finding));
  }
  for (int i = 0; i < options.ranks; ++i) {
    threads.emplace_back([&, i] {
      Rank& rank = *ranks[static_cast<size_t>(i)];
      if (rank.open(i)) body(i, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return finding.text();
}

}  // namespace

std::string find_fault(const GroupOptions& options, uint64_t seed, int calls) {
  random_calls::Limits limits;
  limits.calls = calls;
  limits.min_ranks = limits.max_ranks = options.ranks;
  limits.large = false;
  limits.one_communicator = true;
  const random_calls::Job job = random_calls::make_job(seed, 0, limits);
  Finding finding;
  return run_group(options, finding, [&](int, Rank& rank) { rank.run(job); });
}

std::string with_group(const GroupOptions& options, const Body& body) {
  Finding finding;
  return run_group(options, finding, [&](int i, Rank& rank) { body(i, rank.communicator()); });
}

}  // namespace tutti::faults
