// Calls that are captured into CUDA graphs, replayed, and mixed with eager calls, on processes that
// take the devices in turn.
//
//   --graphs N      random graphs of 1 to 6 calls over 1 to 3 communicators, each replayed 1 to
//                   --replays times on random streams, with eager calls on other streams between;
//                   every output of every run is compared
//   --hosts 2       the second half of the ranks is on another host
//   --fault kill    one rank is killed while the others replay: their streams end, with an error
//   --fault abort   another thread of one rank aborts meanwhile
//   --fault early   a communicator is destroyed before its graph, which is then run once more
//   --fault differ  the last rank has captured one word more: every rank hears which calls differ
//   --fault sizes   the same of sends and receives in a ring: every neighbour of that rank hears it
//   --fault more    the last rank's graph has a call more: the deadline of its run says so
//   --fault discard the last rank captures other calls, and throws that graph away: no fault
//   --fault late    the last rank does not launch its graph of sends and receives: the others'
//                   deadline names it
//
// A line for each rank says what it did. Exit status: 0 right, 1 not, 2 the command line.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>

#include "tests/device/graphs.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using testing_support::Dice;
using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr uint64_t kMsNs = 1'000'000;
constexpr int kComms = 3, kStreams = 3;

struct Options {
  uint64_t seed = 1;
  int ranks = 3, graphs = 10, replays = 20, most_words = 2048;
  int hosts = 1;     // with 2, the second half of the ranks is told to be on another one
  int branches = 1;  // 0: all calls of a graph are in one stream, so in one order on all ranks
  std::string fault;
};

/// 0 <= result < limit, the same on all ranks.
int draw(Dice& dice, int limit) {
  return static_cast<int>(dice.below(static_cast<uint64_t>(limit)));
}

/// One rank with its communicators, streams and memory.
class Rank {
 public:
  Rank(Member& member, Seat& seat, softdev::Client client, const Options& options)
      : member_(member),
        seat_(seat),
        client_(std::move(client)),
        options_(options),
        pieces_(client_.cuda(), seat.device(), size_t{96} << 20) {
    for (int i = 0; i < kStreams + 2; ++i) {
      streams_.push_back(driver::CudaStream::create(client_.cuda()).value());
    }
    comms_[0] = seat.comm();
  }

  bool make_comms() {
    for (int i = 1; i < kComms; ++i) {
      const tuttiResult_t made = tuttiCommSplit(comms_[0], 0, member_.rank(), &comms_[i], nullptr);
      if (!went(member_, made, comms_[0], "tuttiCommSplit")) return false;
    }
    return true;
  }
  /// The last of them, and not the seat's.
  void end_comms() {
    for (int i = 1; i < kComms; ++i) tuttiCommDestroy(comms_[i]);
  }

  bool run_graph(uint64_t index);
  void kill_one();
  void abort_one();
  void end_early();
  void differ(CallSpec::Kind kind);
  void have_more();
  void discard();
  void be_late();
  uint64_t replays() const { return replays_; }
  uint64_t calls() const { return calls_; }

 private:
  /// A call with its buffers, and where a run's data comes from and goes to.
  struct Placed {
    CallSpec spec;
    CallBuffers at;
    size_t send_words = 0, recv_words = 0;
  };
  struct Output {
    const CallSpec spec;
    uint64_t run;
    const uint64_t* words;
  };

  driver::CUstream stream(size_t index) const { return streams_[index].get(); }
  Placed place(Dice& dice);
  void fill(const Placed& call, uint64_t run, driver::CUstream stream);
  void fetch(const Placed& call, uint64_t run, driver::CUstream stream);
  bool put(const Placed& call, driver::CUstream stream);
  void copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t words,
            driver::CUstream stream);
  void follow(driver::CUstream behind, driver::CUstream before);
  std::unique_ptr<Graph> capture(Dice& dice, const std::vector<Placed>& calls);
  std::unique_ptr<Graph> capture_simple(const std::vector<Placed>& calls);
  std::vector<Placed> one_of_each(std::optional<int> comm = {});
  void replay(Dice& dice, const Graph& graph, const std::vector<Placed>& calls);
  bool check();
  void check_failed(uint64_t since_ns);
  bool set_deadline();
  bool is_last() const { return member_.rank() == member_.ranks() - 1; }
  std::string launch_until_failed(const Graph& graph);

  Member& member_;
  Seat& seat_;
  const softdev::Client client_;
  const Options& options_;
  Pieces pieces_;
  std::vector<driver::CudaStream> streams_;  // the last two are for captures
  tuttiComm_t comms_[kComms] = {};
  std::vector<Output> outputs_;
  uint64_t calls_ = 0, replays_ = 0;
  bool ok_ = true;
};

Rank::Placed Rank::place(Dice& dice) {
  Placed call;
  call.spec.kind = draw(dice, CallSpec::kKinds);
  call.spec.count = static_cast<size_t>(1 + draw(dice, options_.most_words));
  call.spec.root = draw(dice, member_.ranks());
  call.spec.comm = draw(dice, kComms);
  call.spec.number = ++calls_;
  call.send_words = call.spec.send_words(member_.ranks());
  call.recv_words = call.spec.recv_words(member_.ranks());
  call.at.send = pieces_.on_device(call.send_words);
  call.at.recv = pieces_.on_device(call.recv_words);
  return call;
}

void Rank::copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t words,
                driver::CUstream stream) {
  const auto done = client_.call().cuMemcpyAsync(target, source, words * 8, stream);
  if (done == driver::kSuccess) return;
  ok_ = false;
  member_.fail("a copy of the program's: error " + std::to_string(done));
}

void Rank::fill(const Placed& call, uint64_t run, driver::CUstream stream) {
  uint64_t* const words = pieces_.pinned(call.send_words);
  for (size_t i = 0; i < call.send_words; ++i) {
    words[i] = sent_word(call.spec, run, member_.rank(), i);
  }
  copy(call.at.send, reinterpret_cast<driver::CUdeviceptr>(words), call.send_words, stream);
}

void Rank::fetch(const Placed& call, uint64_t run, driver::CUstream stream) {
  uint64_t* const words = pieces_.pinned(call.recv_words);
  copy(reinterpret_cast<driver::CUdeviceptr>(words), call.at.recv, call.recv_words, stream);
  outputs_.push_back({call.spec, run, words});
}

bool Rank::put(const Placed& call, driver::CUstream stream) {
  tuttiComm_t comm = comms_[call.spec.comm];
  const tuttiResult_t result = put_call(call.spec, call.at, comm, tuttiStreamCuda(stream));
  ok_ = went(member_, result, comm, "a call") && ok_;
  return ok_;
}

/// All that is put into `behind` from now on comes behind what `before` holds.
void Rank::follow(driver::CUstream behind, driver::CUstream before) {
  const auto event = driver::CudaEvent::create(client_.cuda());
  (void)event.value().record(before);
  (void)event.value().make_wait(behind);
}

/// On one stream, or on two that run side by side; sometimes as a group, in which every rank names
/// the communicators in an order of its own.
std::unique_ptr<Graph> Rank::capture(Dice& dice, const std::vector<Placed>& calls) {
  driver::CUstream own = stream(kStreams), branch = stream(kStreams + 1);
  const bool branches = dice.one_in(2) && options_.branches != 0, grouped = dice.one_in(3);
  std::vector<std::pair<const Placed*, driver::CUstream>> order;
  for (const Placed& call : calls) {
    order.emplace_back(&call, branches && dice.one_in(2) ? branch : own);
  }
  if (grouped) {
    const auto place = [&](const auto& one) {
      return (one.first->spec.comm + member_.rank()) % kComms;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
  }
  return std::make_unique<Graph>(client_, own, [&] {
    if (branches) follow(branch, own);
    if (grouped) tuttiGroupStart();
    for (const auto& [call, on] : order) {
      if (!put(*call, on)) break;
    }
    if (grouped) ok_ = went(member_, tuttiGroupEnd(), nullptr, "tuttiGroupEnd") && ok_;
    if (branches) follow(own, branch);
  });
}

std::unique_ptr<Graph> Rank::capture_simple(const std::vector<Placed>& calls) {
  return std::make_unique<Graph>(client_, stream(kStreams), [&] {
    for (const Placed& call : calls) put(call, stream(kStreams));
  });
}

void Rank::replay(Dice& dice, const Graph& graph, const std::vector<Placed>& calls) {
  const int runs = 1 + draw(dice, options_.replays);
  std::optional<size_t> last;
  for (int run = 0; run < runs && ok_; ++run) {
    const auto on = static_cast<size_t>(draw(dice, kStreams));
    if (last && *last != on) follow(stream(on), stream(*last));
    last = on;
    for (const Placed& call : calls) fill(call, static_cast<uint64_t>(run), stream(on));
    graph.launch(stream(on));
    for (const Placed& call : calls) fetch(call, static_cast<uint64_t>(run), stream(on));
    ++replays_;
    for (int eager = draw(dice, 3); eager > 0; --eager) {
      const Placed call = place(dice);
      driver::CUstream other = stream(static_cast<size_t>(draw(dice, kStreams)));
      fill(call, 0, other);
      if (!put(call, other)) return;
      fetch(call, 0, other);
    }
  }
}

bool Rank::check() {
  for (size_t i = 0; i < kStreams; ++i) ok_ = streams_[i].synchronize().ok() && ok_;
  for (tuttiComm_t comm : comms_) {
    tuttiResult_t error = tuttiSuccess;
    tuttiCommGetAsyncError(comm, &error);
    ok_ = went(member_, error, comm, "a run") && ok_;
  }
  for (const Output& output : outputs_) {
    const size_t words = output.spec.recv_words(member_.ranks());
    for (size_t i = 0; i < words && ok_; ++i) {
      const uint64_t wanted = got_word(output.spec, output.run, member_.rank(), member_.ranks(), i);
      if (output.words[i] == wanted) continue;
      ok_ = false;
      member_.fail("call " + std::to_string(output.spec.number) + " of kind " +
                   std::to_string(output.spec.kind) + ", run " + std::to_string(output.run) +
                   ": word " + std::to_string(i) + " of " + std::to_string(words) + " is wrong");
    }
  }
  outputs_.clear();
  pieces_.reset();
  return ok_;
}

bool Rank::run_graph(uint64_t index) {
  member_.at(index);
  Dice dice(options_.seed * 1000 + index);
  std::vector<Placed> calls;
  for (int i = 1 + draw(dice, 6); i > 0; --i) calls.push_back(place(dice));
  const std::unique_ptr<Graph> graph = capture(dice, calls);
  if (ok_) replay(dice, *graph, calls);
  return check();
}

std::vector<Rank::Placed> Rank::one_of_each(std::optional<int> comm) {
  std::vector<Placed> calls;
  for (int kind = 0; kind < CallSpec::kKinds; ++kind) {
    Dice dice(static_cast<uint64_t>(kind) + 1);
    Placed call = place(dice);
    call.spec = {kind, static_cast<size_t>(1000 + kind), 0, comm.value_or(kind % kComms), ++calls_};
    call.send_words = call.spec.send_words(member_.ranks());
    call.recv_words = call.spec.recv_words(member_.ranks());
    call.at = {pieces_.on_device(call.send_words), pieces_.on_device(call.recv_words)};
    calls.push_back(call);
  }
  return calls;
}

void Rank::check_failed(uint64_t since_ns) {
  const uint64_t took_ms = (now_ns() - since_ns) / kMsNs;
  std::printf("rank %d: its streams went on after %d ms, %d replays\n", member_.rank(),
              static_cast<int>(took_ms), static_cast<int>(replays_));
  if (took_ms > 5000) member_.fail("its streams stood still for more than 5 s");
}

/// Replays until the communicator says that it has failed, and once more.
void Rank::kill_one() {
  const std::unique_ptr<Graph> graph = capture_simple(one_of_each());
  std::atomic<uint64_t>& killed_ns = member_.board().numbers[0];
  if (!member_.meet()) return;
  const bool dies = member_.rank() == member_.ranks() - 1;
  const uint64_t end_ns = now_ns() + (50 + options_.seed % 7 * 20) * kMsNs;
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess) {
    if (dies && now_ns() > end_ns) {
      killed_ns.store(now_ns());
      member_.die();
    }
    graph->launch(stream(0));
    ++replays_;
    if (replays_ % 3 == 0) (void)streams_[0].synchronize();
    for (tuttiComm_t comm : comms_) {
      if (error == tuttiSuccess) tuttiCommGetAsyncError(comm, &error);
    }
  }
  graph->launch(stream(0));
  (void)streams_[0].synchronize();
  check_failed(killed_ns.load());
}

void Rank::abort_one() {
  const std::vector<Placed> calls = one_of_each(0);
  const std::unique_ptr<Graph> graph = capture_simple(calls);
  std::atomic<uint64_t>& aborted_ns = member_.board().numbers[0];
  if (!member_.meet()) return;
  std::atomic<bool> over{false};
  std::thread other([&] {
    if (member_.rank() != 0) return;
    sleep_ns((50 + options_.seed % 7 * 20) * kMsNs);
    aborted_ns.store(now_ns());
    tuttiCommAbort(seat_.give_comm());
    over = true;
  });
  // The aborted rank runs the graph some more: nothing of it is left, and its streams go on.
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess && !over) {
    graph->launch(stream(0));
    if (++replays_ % 3 == 0) (void)streams_[0].synchronize();
    if (member_.rank() != 0) tuttiCommGetAsyncError(comms_[0], &error);
  }
  graph->launch(stream(0));
  (void)streams_[0].synchronize();
  other.join();
  check_failed(aborted_ns.load());
  member_.meet();
}

void Rank::end_early() {
  const std::vector<Placed> calls = one_of_each(1);
  const std::unique_ptr<Graph> graph = capture_simple(calls);
  graph->launch(stream(0));
  if (!streams_[0].synchronize().ok()) return member_.fail("its stream failed");
  if (!member_.meet()) return;
  if (!went(member_, tuttiCommDestroy(comms_[1]), nullptr, "tuttiCommDestroy")) return;
  graph->launch(stream(0));
  if (!streams_[0].synchronize().ok()) return member_.fail("its stream failed");
  std::printf("rank %d: a graph ran behind its communicator's end\n", member_.rank());
  member_.meet();
}

/// Returns the error of communicator 0.
std::string Rank::launch_until_failed(const Graph& graph) {
  const uint64_t since_ns = now_ns();
  graph.launch(stream(0));
  ++replays_;
  tuttiResult_t error = tuttiSuccess;
  while (error == tuttiSuccess && now_ns() - since_ns < 5000 * kMsNs) {
    tuttiCommGetAsyncError(comms_[0], &error);
  }
  std::string text = tuttiGetLastError(comms_[0]);
  (void)streams_[0].synchronize();
  check_failed(since_ns);
  return text;
}

void Rank::differ(CallSpec::Kind kind) {
  std::vector<Placed> calls = one_of_each(0);
  std::swap(calls.front(), calls[kind]);
  Placed& first = calls.front();
  if (is_last()) ++first.spec.count;
  first.at = {pieces_.on_device(first.spec.send_words(member_.ranks())),
              pieces_.on_device(first.spec.recv_words(member_.ranks()))};
  const std::unique_ptr<Graph> graph = capture_simple(calls);
  if (!member_.meet()) return;
  const std::string text = launch_until_failed(*graph);
  const size_t words = first.spec.count - (is_last() ? 1 : 0);
  const size_t unit = kind == CallSpec::kRing ? sizeof(uint64_t) : 1;
  for (const size_t count : {words, words + 1}) {
    if (text.find(" of " + std::to_string(count * unit) + " ") != text.npos) continue;
    member_.fail("it does not hear of a call of " + std::to_string(count) + " words: " + text);
  }
  member_.meet();
}

bool Rank::set_deadline() {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = 300 * kMsNs;
  return went(member_, tuttiCommSetOptions(comms_[0], &options), comms_[0], "its options");
}

void Rank::have_more() {
  if (!set_deadline()) return;
  std::vector<Placed> calls = one_of_each(0);
  calls.resize(is_last() ? 4 : 3);
  const std::unique_ptr<Graph> graph = capture_simple(calls);
  if (!member_.meet()) return;
  const std::string text = launch_until_failed(*graph);
  const bool hears = text.find("call 4 of captured graph 1 differs") != text.npos;
  if (is_last() && !hears) member_.fail("it does not hear that others have less: " + text);
  member_.meet();
}

void Rank::discard() {
  std::vector<Placed> other = one_of_each(), calls = one_of_each();
  std::swap(other.front().spec.count, other.back().spec.count);
  if (is_last()) (void)capture_simple(other);
  Dice dice(options_.seed);
  for (int graphs = 0; graphs < 3 && ok_; ++graphs) {
    replay(dice, *capture_simple(calls), calls);
    if (!check()) return;
    calls = one_of_each();
  }
  member_.meet();
}

void Rank::be_late() {
  if (!set_deadline()) return;
  const std::vector<Placed> calls = {one_of_each(0)[CallSpec::kRing]};
  const std::unique_ptr<Graph> graph = capture_simple(calls);
  if (!is_last()) {
    const std::string text = launch_until_failed(*graph);
    const std::string wanted = "rank " + std::to_string(member_.ranks() - 1);
    const size_t at = text.find("passed its deadline: " + wanted);
    if (at == text.npos || text.find("has not come to this run", at) == text.npos) {
      member_.fail("the deadline does not name " + wanted + ": " + text);
    }
  }
  member_.meet();
}

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, std::move(client).value(), options);
  if (!rank.make_comms()) return;
  if (options.fault == "kill") return rank.kill_one();
  if (options.fault == "abort") return rank.abort_one();
  if (options.fault == "early") return rank.end_early();
  if (options.fault == "differ") return rank.differ(CallSpec::kAllReduce);
  if (options.fault == "sizes") return rank.differ(CallSpec::kRing);
  if (options.fault == "more") return rank.have_more();
  if (options.fault == "discard") return rank.discard();
  if (options.fault == "late") return rank.be_late();
  const uint64_t start_ns = now_ns();
  for (int i = 0; i < options.graphs; ++i) {
    if (!rank.run_graph(static_cast<uint64_t>(i))) return;
  }
  if (!member.meet()) return;
  rank.end_comms();
  if (member.rank() != 0) return;
  std::printf("%d graphs, %d replays, %d calls: all right, %d ms\n", options.graphs,
              static_cast<int>(rank.replays()), static_cast<int>(rank.calls()),
              static_cast<int>((now_ns() - start_ns) / kMsNs));
  std::fflush(stdout);
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Options options;
  uint64_t limit_s = 120;
  if (!read_options(argc, argv,
                    {{"--seed", into(options.seed)},
                     {"--ranks", into(options.ranks, 2, 8)},
                     {"--graphs", into(options.graphs, 1)},
                     {"--replays", into(options.replays, 1)},
                     {"--words", into(options.most_words, 1)},
                     {"--hosts", into(options.hosts, 1, 2)},
                     {"--branches", into(options.branches, 0, 1)},
                     {"--limit", into(limit_s)},
                     {"--fault", into(options.fault)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(options.ranks);
  if (options.hosts > 1) shape.use(Network::kMixed);
  const TeamResult result = run_team(
      shape, [&](Member& member) { run_rank(member, options); },
      [&](uint64_t step) { return "graph " + std::to_string(step); }, limit_s * 1'000'000'000);
  std::printf("%s", result.report.c_str());
  const bool expected_death =
      options.fault == "kill" &&
      result.report == "  process " + std::to_string(options.ranks - 1) + " ended by signal 9\n";
  return result.ok || expected_death ? 0 : 1;
}
