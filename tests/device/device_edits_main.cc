// device_edits: communicators whose ranks have devices are edited in place. Before and behind each
// edit all kinds of calls run on one stream of each rank, eager and in newly captured graphs, and
// every word is compared with what it must be; graphs of the epochs before are launched as well,
// which must come to their end and change nothing of the calls behind them.
//
//   --ranks N   of the first epoch (default 3)    --threads 1   of one process, else of one each
//   --hosts H   that the ranks are told to be on (default 1)
//   --says TEXT that tuttiExplain must say of a short all_reduce, wherever all have devices
//   --scenario  shrink  the last rank leaves, though it lives; then all change their ranks
//               turn    all change their ranks, again and again, and no memory stays behind
//               join    a newcomer with a device comes; then all change their ranks
//               bare    a newcomer without a device comes, and leaves again
//               kill    a rank is killed in the middle of its calls, and the others go on
//               twice   the same, and another one while they edit
//               full    a rank finds no memory for its ring: by the host until the next edit
//               busy    a graph of rank 0 waits for its peers: the edit ends in vain
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/device/newcomers.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

struct Options {
  int ranks = 3, threads = 0, hosts = 1;
  std::string scenario = "shrink", says = "on device memory: by ";

  bool has_newcomer() const { return scenario == "join" || scenario == "bare"; }
  int all() const { return ranks + (has_newcomer() ? 1 : 0); }
};

constexpr size_t kCounts[] = {100, 40'000};  // words: short, and several slices
constexpr uint64_t kMostNs = 60'000'000'000;
constexpr uint64_t kMsNs = 1'000'000;
constexpr int kVictim = 1, kSecond = 2;
constexpr uint64_t kMostOfEditNs = 60 * kMsNs;  // about what an edit takes
constexpr const char* kNoDevice = "had no current device when it made the communicator";

CallSpec spec_of(int kind, size_t count) {
  CallSpec spec;
  spec.kind = kind;
  spec.count = count;
  spec.number = static_cast<uint64_t>(kind) * 2 + (count == kCounts[0] ? 0 : 1);
  return spec;
}

constexpr int kRunsOfGraph = 2;

/// A member of the group and its calls.
class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client, const Options& options)
      : member_(member),
        seat_(seat),
        client_(client),
        options_(options),
        stream_(must(drivers::cuda::CudaStream::create(client.cuda()))) {
    for (int kind = 0; kind < CallSpec::kKinds; ++kind) {
      for (const size_t count : kCounts) calls_.push_back(make(kind, count));
    }
  }

  void shrink() {
    const int last = options_.ranks - 1;
    run_all();
    if (member_.rank() == last) return leave(member_, last, seat_.give_comm());
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.removed = &last;
    edit.removed_count = 1;
    if (!change(edit) || !expect(last, 1)) return;
    go_on(member_);
    run_all();
    if (turn()) run_all();
    end();
  }

  void turn_often() {
    constexpr int kTurns = 4;
    run_all();
    for (int round = 0; round < kTurns; ++round) {
      if (!turn()) return;
      old_graphs_.clear();
      run_all();
      old_graphs_.clear();
      if (round == 0) live_ = client_.statistics();
      if (round > 0 && !has_no_more()) return;
    }
    end();
  }

  void join() {
    if (member_.rank() == options_.ranks) {
      const tuttiComm_t comm = come(member_);
      if (comm == nullptr) return;
      seat_.take_comm(comm);
    } else {
      run_all();
      if (!let_in()) return;
    }
    if (!expect(options_.ranks + 1, 1)) return;
    run_all();
    if (turn()) run_all();
    end();
  }

  /// With BareRank.
  void be_with_bare() {
    run_all();
    if (!let_in() || !expect(options_.ranks + 1, 1)) return;
    run_all(kNoDevice);
    const int bare = options_.ranks;
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.removed = &bare;
    edit.removed_count = 1;
    if (!change(edit) || !expect(options_.ranks, 2)) return;
    go_on(member_);
    run_all();
    end();
  }

  /// `has_second`: another rank dies while the others edit.
  void be_killed(bool has_second) {
    constexpr int kCalls = 5;
    run_all();
    for (int number = 0;; ++number) {
      if (member_.rank() == kVictim && number == kCalls) member_.die();
      const PlacedCall& call = calls_[static_cast<size_t>(number) % calls_.size()];
      tuttiResult_t result = put_call(call.spec, call.at(), comm(), on_stream());
      if (number == kCalls + 20 && !stream_.synchronize().ok()) return wrong("its stream failed");
      if (result == tuttiSuccess) tuttiCommGetAsyncError(comm(), &result);
      if (result != tuttiSuccess) break;
      if (number == kCalls + 20) return wrong("no call has failed");
    }
    std::thread killer;
    if (has_second && member_.rank() == kSecond) {
      killer = std::thread([this] {
        sleep_ns(now_ns() % kMostOfEditNs);
        member_.die();
      });
    }
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.remove_dead = 1;
    do {
      if (!change(edit)) break;
    } while (has_second && ranks_ > options_.ranks - 2);
    if (killer.joinable()) killer.join();
    if (!expect(options_.ranks - (has_second ? 2 : 1), 1)) return;
    run_all();
    if (turn()) run_all();
    end();
  }

  void find_no_memory() {
    run_all();
    std::vector<drivers::cuda::DeviceMemory> all;
    for (size_t bytes = size_t{1} << 30; member_.rank() == 0 && bytes >= (size_t{64} << 10);) {
      auto taken = drivers::cuda::DeviceMemory::allocate(client_.cuda(), seat_.device(), bytes);
      if (taken.ok()) all.push_back(std::move(taken).value());
      if (!taken.ok()) bytes /= 2;
    }
    if (!member_.meet()) return;
    if (!turn()) return;
    run_all("since rank " + std::to_string(ranks_ - 1));  // what rank 0 has become
    all.clear();
    if (!member_.meet()) return;
    if (turn()) run_all();
    end();
  }

  void be_busy() {
    run_all();
    if (member_.rank() == 0) old_graphs_[0]->launch(stream_.get());
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.remove_dead = 1;
    edit.timeout_ns = 2'000 * kMsNs;
    if (tuttiCommEdit(comm(), &edit, nullptr) != tuttiTimeout) {
      return wrong("it was edited beside a graph that waits");
    }
    const std::string why = tuttiGetLastError(comm());
    if (member_.rank() == 0 && why.find("graphs, of rank 0") == std::string::npos) {
      return wrong("whose graph is it? " + why);
    }
    if (!member_.meet() || !expect(options_.ranks, 0)) return;
    if (member_.rank() != 0) old_graphs_[0]->launch(stream_.get());
    if (!stream_.synchronize().ok()) return wrong("its stream failed");
    old_graphs_.clear();
    run_all();
    if (turn()) run_all();
    end();
  }

  void run_all() { run_all(options_.says); }
  void run_all(const std::string& says) {
    explain(says);
    for (const std::unique_ptr<Graph>& old : old_graphs_) old->launch(stream_.get());
    std::vector<std::unique_ptr<Graph>> graphs;
    for (const PlacedCall& call : calls_) {
      run_once(call, [&] { put(call); });
      graphs.push_back(std::make_unique<Graph>(client_, stream_.get(), [&] { put(call); }));
      for (int run = 0; run < kRunsOfGraph; ++run) {
        run_once(call, [&] { graphs.back()->launch(stream_.get()); });
      }
    }
    old_graphs_ = std::move(graphs);
  }

 private:
  tuttiComm_t comm() const { return seat_.comm(); }
  tuttiStream_t on_stream() const { return tuttiStreamCuda(stream_.get()); }
  void wrong(const std::string& what) { member_.fail(what); }

  PlacedCall make(int kind, size_t count) {
    const CallSpec spec = spec_of(kind, count);
    return place_call(seat_, spec, options_.all());
  }

  void put(const PlacedCall& call) {
    went(member_, put_call(call.spec, call.at(), comm(), on_stream()), comm(), "a call");
  }

  template <class Work>
  void run_once(const PlacedCall& call, const Work& work) {
    const std::string found = check_run(seat_, call, {++runs_, rank_, ranks_}, [&] {
      work();
      return stream_.synchronize().ok();
    });
    if (!found.empty()) wrong("epoch " + std::to_string(epoch_) + ", " + found);
  }

  void explain(const std::string& says) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    if (!went(
            member_,
            tuttiExplain(comm(), "all_reduce", 100, tuttiUint64, text.data(), text.size(), &needed),
            comm(), "tuttiExplain")) {
      return;
    }
    const std::string all = text.data();
    if (all.find(says) == std::string::npos) wrong("it does not say '" + says + "': " + all);
  }

  /// Runs are counted anew, since a newcomer has none of those before.
  bool look() {
    runs_ = 0;
    return went(member_, tuttiCommUserRank(comm(), &rank_), comm(), "rank") &&
           went(member_, tuttiCommCount(comm(), &ranks_), comm(), "count") &&
           went(member_, tuttiCommGetEpoch(comm(), &epoch_), comm(), "epoch");
  }

  bool change(const tuttiEdit_t& edit) {
    return went(member_, tuttiCommEdit(comm(), &edit, nullptr), comm(), "tuttiCommEdit") && look();
  }

  bool expect(int ranks, uint32_t epoch) {
    if (!look()) return false;
    if (ranks_ == ranks && epoch_ >= epoch) return true;
    wrong("epoch " + std::to_string(epoch_) + " has " + std::to_string(ranks_) + " ranks");
    return false;
  }

  std::vector<int> reversed() const {
    std::vector<int> order(static_cast<size_t>(ranks_));
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
  }

  bool turn() {
    const std::vector<int> order = reversed();
    const int was = rank_;
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = order.data();
    edit.order_count = ranks_;
    if (!change(edit)) return false;
    if (rank_ == ranks_ - 1 - was) return true;
    wrong("the ranks have not changed");
    return false;
  }

  /// The epochs before have given all back, some of it in a thread of its own.
  bool has_no_more() {
    const uint64_t until_ns = now_ns() + kMostNs;
    for (;;) {
      const SoftdevStatistics now = client_.statistics();
      if (now.live_device_bytes <= live_.live_device_bytes &&
          now.live_mappings <= live_.live_mappings && now.live_handles <= live_.live_handles) {
        return true;
      }
      if (now_ns() >= until_ns) break;
      sleep_ns(kMsNs);
    }
    const SoftdevStatistics now = client_.statistics();
    wrong("an epoch has left memory of a device behind: " +
          std::to_string(now.live_device_bytes - live_.live_device_bytes) + " bytes, " +
          std::to_string(now.live_mappings - live_.live_mappings) + " mappings, " +
          std::to_string(now.live_handles - live_.live_handles) + " handles");
    return false;
  }

  /// The edit with one newcomer.
  bool let_in() {
    tuttiUniqueId id;
    if (member_.rank() == 0) {
      if (!went(member_, tuttiCommGetUniqueId(comm(), &id), comm(), "id")) return false;
      show_id(member_, id);
    }
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.newcomers = 1;
    return change(edit);
  }

  void end() { went(member_, tuttiCommDestroy(seat_.give_comm()), nullptr, "tuttiCommDestroy"); }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const Options options_;
  const drivers::cuda::CudaStream stream_;
  std::vector<PlacedCall> calls_;
  std::vector<std::unique_ptr<Graph>> old_graphs_;
  SoftdevStatistics live_{};
  uint64_t runs_ = 0;
  uint32_t epoch_ = 0;
  int rank_ = member_.rank(), ranks_ = options_.ranks;
};

/// A newcomer without a device: its calls are on host memory, and meet those of the others there.
class BareRank {
 public:
  BareRank(Member& member, const Options& options) : member_(member), options_(options) {}

  void run() {
    const tuttiComm_t comm = come(member_);
    if (comm == nullptr) return;
    for (int kind = 0; kind < CallSpec::kKinds; ++kind) {
      for (const size_t count : kCounts) {
        for (int run = 0; run < 1 + kRunsOfGraph; ++run) call(spec_of(kind, count), comm);
      }
    }
    leave(member_, options_.ranks, comm);
  }

 private:
  void call(const CallSpec& spec, tuttiComm_t comm) {
    const int rank = options_.ranks, ranks = options_.all();
    const uint64_t number = ++runs_;
    Words send(spec.send_words(ranks) + 1), recv(spec.recv_words(ranks) + 1);
    for (size_t i = 0; i + 1 < send.size(); ++i) send[i] = sent_word(spec, number, rank, i);
    const CallBuffers at{reinterpret_cast<drivers::cuda::CUdeviceptr>(send.data()),
                         reinterpret_cast<drivers::cuda::CUdeviceptr>(recv.data())};
    if (!went(member_, put_call(spec, at, comm, tuttiBlocking()), comm, "a call")) return;
    for (size_t i = 0; i + 1 < recv.size(); ++i) {
      if (recv[i] == got_word(spec, number, rank, ranks, i)) continue;
      return member_.fail("kind " + std::to_string(spec.kind) + ": a word of the host is wrong");
    }
  }

  Member& member_;
  const Options& options_;
  uint64_t runs_ = 0;
};

void run_scenario(Rank& rank, const std::string& scenario) {
  if (scenario == "shrink") rank.shrink();
  if (scenario == "turn") rank.turn_often();
  if (scenario == "join") rank.join();
  if (scenario == "bare") rank.be_with_bare();
  if (scenario == "kill") rank.be_killed(false);
  if (scenario == "twice") rank.be_killed(true);
  if (scenario == "full") rank.find_no_memory();
  if (scenario == "busy") rank.be_busy();
}

void run_rank(Member& member, const Options& options) {
  const bool is_newcomer = member.rank() >= options.ranks;
  if (is_newcomer && options.scenario == "bare") return BareRank(member, options).run();
  const std::unique_ptr<Seat> seat = Seat::open_alone(member);
  if (seat == nullptr) return;
  if (!is_newcomer) {
    tuttiUniqueId id;
    tuttiComm_t comm = nullptr;
    if (!member.take_id(id) ||
        !went(member, tuttiCommInitRank(&comm, options.ranks, id, member.rank()), nullptr,
              "tuttiCommInitRank")) {
      return;
    }
    seat->take_comm(comm);
  }
  Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, client.value(), options);
  run_scenario(rank, options.scenario);
}

testing_support::TeamShape shape_of(const Options& options) {
  using testing_support::TeamShape;
  TeamShape shape = options.threads != 0 ? TeamShape::threads(options.all())
                                         : TeamShape::processes(options.all());
  for (int rank = 0; options.hosts > 1 && rank < options.all(); ++rank) {
    const std::string host = "host-" + std::to_string(rank * options.hosts / options.all());
    shape.environment.push_back({{"TUTTI_HOST_ID", host}});
  }
  return shape;
}

std::string killed(int process) {
  return "  process " + std::to_string(process) + " ended by signal 9\n";
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 8)},
                     {"--threads", into(options.threads, 0, 1)},
                     {"--hosts", into(options.hosts, 1, 8)},
                     {"--says", into(options.says)},
                     {"--scenario", into(options.scenario)}})) {
    return 2;
  }
  const TeamResult result = run_team(
      tutti::device_programs::shape_of(options),
      [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  // A rank that was killed by its own hand has done what it should.
  std::string expected;
  if (options.scenario == "kill") expected = killed(kVictim);
  if (options.scenario == "twice") expected = killed(kVictim) + killed(kSecond);
  const bool is_right = result.report == expected;
  if (!is_right) std::printf("%s", result.report.c_str());
  return is_right ? 0 : 1;
}
