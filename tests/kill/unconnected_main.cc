// unconnected: twelve processes, each connected with few others (tests/support/sparse.h). Notices
// of one of them must reach those that are not connected with it.
//
//   --case death   one is killed while nobody is in a call: within a second all others have failed
//                  and name it
//   --case abort   one gives up while nobody is in a call: within two seconds all others have
//                  failed and name it
//   --case quit    one gives up and ends its communicator: the same within half a second, though
//                  the ranks of its host look only once, after a while
//   --case leave   one leaves in good order: nobody takes it for dead
//   --case blame   each waits for another one in a chain, the last is stopped: the first asks along
//                  the chain, and blames it when its deadline has passed; the others then do
//   --per-host N   ranks of one host; the first of them keeps the connections
//   --cut yes      nobody is connected at all, so that it must go wrong
//   --connected yes  all are connected with all
//   --late yes     of case leave: the one begins to leave before it is connected with anybody
//   --asleep yes   the others look once, after a while: all that happens is the control threads'
//
// No process sends another one any notice twice. A round that fails while the machine stands still
// is repeated.
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"
#include "tests/support/metronome.h"
#include "tests/support/sanitizer.h"
#include "tests/support/sparse.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using testing_support::Board;
using testing_support::Member;
using testing_support::now_ns;
using testing_support::RankState;
using testing_support::sleep_ns;
using testing_support::SparseBoard;

constexpr int kRanks = 12;
constexpr int kVictim = 7;
constexpr int kStride = 5;  // of the chain 0, 5, 10, 3 ... 7
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kAsleepNs = 5 * kSecond / 2;
constexpr uint64_t kHangNs = 30 * kSecond;
constexpr uint64_t kFirstDeadlineNs = 4 * kSecond;  // of the first of the chain

struct Options {
  std::string what;
  int per_host = 1;
  bool cut = false;
  bool connected = false;
  bool asleep = false;
  bool late = false;
};

/// Whether a rank looks at its communicator only once, after a while.
bool is_asleep(const Options& options, int rank) {
  const bool near = rank / options.per_host == kVictim / options.per_host;
  return options.asleep || (options.what == "quit" && near);
}

/// Memory of all processes.
struct Shared {
  Board board;
  SparseBoard sparse;
  std::atomic<int> brought, ready;
  std::atomic<bool> go, end;
  uint32_t card_bytes[kRanks];
  char cards[kRanks][4096];
};

template <class Condition>
bool wait_for(Condition condition, uint64_t limit_ns = kHangNs) {
  for (const uint64_t end_ns = now_ns() + limit_ns; now_ns() < end_ns;) {
    if (condition()) return true;
    sleep_ns(kMillisecond / 5);
  }
  return false;
}

class Rank {
 public:
  Rank(Shared& shared, int rank, const Options& options)
      : shared_(shared), options_(options), member_(shared.board, rank, kRanks), rank_(rank) {}

  void run() {
    if (!join()) return;
    shared_.ready.fetch_add(1);
    wait_for([&] { return shared_.go.load(); });
    if (options_.what == "blame" && rank_ != kVictim) {
      receive_from_next();
    } else if (options_.what == "leave" && rank_ == kVictim) {
      communicator_.reset();
    } else if (options_.what == "abort" && rank_ == kVictim) {
      communicator_->failures().abort(Status::remote_error("it does not want to go on"));
      communicator_->give_up();
    } else if (options_.what == "quit" && rank_ == kVictim) {
      communicator_->failures().abort(Status::remote_error("it does not want to go on"));
      communicator_->give_up();
      communicator_.reset();
    } else {
      const bool asleep = is_asleep(options_, rank_);
      if (asleep) sleep_ns(kAsleepNs);
      wait_for([&] { return !communicator_->failure().ok() || shared_.end.load() || asleep; });
      const Status failure = communicator_->failure();
      if (!failure.ok()) member_.fail(std::string(failure.message()));
    }
    wait_for([&] { return shared_.end.load(); });
    if (communicator_ != nullptr && !communicator_->failure().ok()) communicator_->give_up();
  }

 private:
  Result<std::vector<std::string>> exchange(std::string_view card) {
    const auto self = static_cast<size_t>(rank_);
    std::memcpy(shared_.cards[self], card.data(), card.size());
    shared_.card_bytes[self] = static_cast<uint32_t>(card.size());
    shared_.brought.fetch_add(1);
    if (!wait_for([&] { return shared_.brought.load() == kRanks; })) {
      return Status::timeout("cards are missing");
    }
    std::vector<std::string> cards;
    for (size_t i = 0; i < kRanks; ++i) {
      cards.emplace_back(shared_.cards[i], shared_.card_bytes[i]);
    }
    return cards;
  }

  bool join() {
    auto watch = bootstrap::Watch::create();
    if (!watch.ok()) return failed(watch.status());
    watch_ = std::move(watch).value();
    for (const transport::Factory& factory : registry::transports()) {
      if (factory.name == "shm") factories_.push_back(factory);
      if (factory.name == "tcp") testing_support::set_sparse(shared_.sparse, factory);
    }
    factories_.push_back(testing_support::sparse_factory());
    config_.lazy_connect = true;
    comm::CommunicatorOptions wanted;
    wanted.algorithms = registry::algorithms();
    wanted.watch = watch_.get();
    comm::MembershipOptions& membership = wanted.membership;
    membership.env = &env_;
    membership.transports = factories_;
    membership.layout = exec::ArenaLayout(4 << 20, exec::PairExecutor::kPairBytes, kRanks);
    membership.wait_limit = monotonic_ns() + kHangNs;
    transport::Member& self = membership.self;
    self.rank = rank_;
    self.ranks = kRanks;
    self.communicator = 0x5ba75e;
    self.host_id = "host-" + std::to_string(rank_ / options_.per_host);
    self.id.process = {0, static_cast<uint64_t>(rank_) + 1};
    self.bind_address = "127.0.0.1";
    membership.exchange = [this](std::string_view card, const WaitLimit&) {
      return exchange(card);
    };
    auto made = comm::Communicator::create(std::move(wanted));
    if (!made.ok()) return failed(made.status());
    communicator_ = std::move(made).value();
    return true;
  }

  void receive_from_next() {
    const uint64_t timeout_ns = rank_ == 0 ? kFirstDeadlineNs : 3 * kFirstDeadlineNs;
    std::byte word[8];
    const exec::Transfer transfer{static_cast<uint32_t>((rank_ + kStride) % kRanks), false, word,
                                  sizeof word};
    failed(communicator_->transfers().run({&transfer, 1}, timeout_ns));
  }

  bool failed(const Status& status) {
    member_.fail(std::string(status.message()));
    return false;
  }

  Shared& shared_;
  const Options& options_;
  Member member_;
  const int rank_;
  Config config_;
  Logger log_{LogLevel::kOff};
  const Env env_{&config_, &log_, monotonic_ns};
  std::vector<transport::Factory> factories_;
  std::unique_ptr<bootstrap::Watch> watch_;
  std::unique_ptr<comm::Communicator> communicator_;
};

class Job {
 public:
  explicit Job(const Options& options) : options_(options) {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = new (memory) Shared();
  }
  ~Job() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    munmap(shared_, sizeof(Shared));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool run() {
    shared_->sparse.cut.store(options_.cut);
    if (options_.late) shared_->sparse.held.store(kVictim);
    for (int a = 0; a < kRanks && options_.connected; ++a) {
      for (int b = 0; b < a; ++b) shared_->sparse.connect(a, b);
    }
    start();
    if (!wait_for([&] { return shared_->ready.load() == kRanks || anyone_failed(); })) {
      return fail("the ranks did not come together");
    }
    const bool leaves = options_.what == "leave";  // which must not take connections for granted
    if (!leaves && !wait_for([&] { return shared_->sparse.all_settled(); })) {
      return fail("the ranks were not connected");
    }
    bool fine = check_connections();
    shared_->go.store(true);
    const uint64_t start_ns = now_ns();
    if (options_.late) {
      sleep_ns(kSecond / 10);
      shared_->sparse.held.store(-1);
    }
    if (leaves) {
      sleep_ns(options_.late ? kSecond : kSecond / 2);  // who cannot be reached is missed later
    } else {
      if (options_.what == "death") kill(pids_[kVictim], SIGKILL);
      if (options_.what == "blame") kill(pids_[kVictim], SIGSTOP);
      wait_for([&] { return all_others_failed(); }, 2 * limit_ns(kVictim));
    }
    fine = judge(start_ns) && fine;
    shared_->end.store(true);
    return fine;
  }

 private:
  void start() {
    std::fflush(stdout);
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        Rank(*shared_, rank, options_).run();
        _exit(0);
      }
      pids_.push_back(pid);
    }
  }

  const testing_support::RankSlot& slot(int rank) const { return shared_->board.slots[rank]; }
  bool has_failed(int rank) const { return slot(rank).state.load() == RankState::kFailed; }
  bool anyone_failed() const {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (has_failed(rank)) return true;
    }
    return false;
  }
  bool all_others_failed() const {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != kVictim && !has_failed(rank)) return false;
    }
    return true;
  }

  // Or the test would show nothing.
  bool check_connections() {
    int strangers = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      strangers += rank != kVictim && !shared_->sparse.has(rank, kVictim) ? 1 : 0;
    }
    return options_.connected || strangers >= 4 || fail("too many are connected with the victim");
  }

  uint64_t limit_ns(int rank) const {
    if (options_.what == "blame") return kFirstDeadlineNs + 3 * kSecond;
    const uint64_t slower = testing_support::kSanitized ? 5 : 1;
    if (is_asleep(options_, rank)) return 4 * slower * kSecond;
    if (options_.what == "quit") return slower * kSecond / 2;
    return (options_.what == "abort" ? 2 : 1) * slower * kSecond;
  }

  // A rank that left sends a leave notice; those that lost one tell it.
  bool judge_notices() {
    bool fine = true;
    int all = 0;
    for (int a = 0; a < kRanks; ++a) {
      for (int b = 0; b < kRanks; ++b) {
        const int told = shared_->sparse.notices[a][b].load();
        if (told > 1) fine = fail(a, "sent a notice " + std::to_string(told) + " times");
        all += told;
      }
    }
    const bool silent = options_.what == "leave" && options_.per_host > 1;  // it has no connection
    return (all > 0 || silent || fail("nobody told anything")) && fine;
  }

  bool judge(uint64_t start_ns) {
    bool fine = judge_notices();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      if (options_.what == "leave") {
        if (has_failed(rank)) fine = fail(rank, "took a rank that left for dead");
      } else if (!has_failed(rank)) {
        fine = fail(rank, "got no error");
      } else {
        fine = judge_error(rank, slot(rank).failed_at_ns.load() - start_ns) && fine;
      }
    }
    if (options_.what == "blame" && !shared_->sparse.has(0, kVictim)) {
      fine = fail("the first of the chain did not ask the last");
    }
    return fine;
  }

  bool judge_error(int rank, uint64_t took_ns) {
    const bool blame = options_.what == "blame";
    const std::string message = slot(rank).message;
    const std::string name = "rank " + std::to_string(kVictim) + " (";
    const std::string wanted = !blame      ? name
                               : rank == 0 ? "passed its deadline: nothing was heard of " + name
                                           : "because of " + name;
    bool fine = message.find(wanted) != std::string::npos || fail(rank, "does not blame it");
    if (took_ns > limit_ns(rank)) fine = fail(rank, "learned of it too late");
    slowest_ns_ = std::max(slowest_ns_, took_ns);
    return fine;
  }

  bool fail(const std::string& text) {
    std::printf("FAILED: %s\n", text.c_str());
    return false;
  }
  bool fail(int rank, const std::string& text) {
    return fail("rank " + std::to_string(rank) + " " + text + ": " + slot(rank).message);
  }

 public:
  uint64_t slowest_ns() const { return slowest_ns_; }

 private:
  const Options& options_;
  Shared* shared_ = nullptr;
  std::vector<pid_t> pids_;
  uint64_t slowest_ns_ = 0;
};

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--case") options.what = value;
    if (name == "--per-host") options.per_host = std::atoi(value.c_str());
    if (name == "--cut") options.cut = value == "yes";
    if (name == "--late") options.late = value == "yes";
    if (name == "--asleep") options.asleep = value == "yes";
    if (name == "--connected") options.connected = value == "yes";
  }
  const bool known = options.what == "death" || options.what == "abort" || options.what == "quit" ||
                     options.what == "leave" || options.what == "blame";
  if (options.late && options.what != "leave") return false;
  return argc % 2 == 1 && known && options.per_host > 0;
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using namespace tutti::kill_test;
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "unconnected: see the head of %s\n", __FILE__);
    return 2;
  }
  uint64_t slowest_ns = 0;
  const bool fine = tutti::testing_support::succeeds_where_the_machine_runs([&](const auto&) {
    Job job(options);
    const bool right = job.run();
    slowest_ns = job.slowest_ns();
    return right;
  });
  std::printf("%s, %d on a host: %s; the slowest took %d ms\n", options.what.c_str(),
              options.per_host, fine ? "right" : "WRONG",
              static_cast<int>(slowest_ns / kMillisecond));
  return fine ? 0 : 1;
}
