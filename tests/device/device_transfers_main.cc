// device_transfers: sends, receives and shares on device memory, between processes that
// call them in all the ways that end well, with sizes up to many times what a pair has on its way.
// Every byte that is received is checked, and the words behind it.
//
//   --ranks N    processes (default 4)
//   --rounds N   calls or groups of every rank (default 24)
//   --seed S     what to draw from (default 1)
//   --kib N      a transfer has at most so many KiB (default 512)
//   --replays N  the calls of every other round are captured into a graph, which runs so many times
//                (default 0: all are eager)
//   --hosts H    so many hosts, which are told to be different ones (default 1)
//   --registered 1  each rank chooses for each round whether its buffers lie in memory that all
//   have
//                registered, at any byte, or elsewhere. The buffers are written over behind
//                each call; memory is deregistered while calls and graphs use it, and freed and
//                replaced
//   --fault 1    rank 1 has deregistered memory that the others have not: both ends of a transfer
//                are told
//   --bound B    of several hosts: it is wrong if the process has taken more than so many bytes of
//                pinned memory (default: any)
//
// Fails, too, if anything went through the host, as a whole where there are several. Exit status: 0
// right, 1 not, 2 the command line.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

#include "tests/device/graphs.h"
#include "tests/device/seat.h"
#include "tests/software_device/hooks.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Dice;
using testing_support::Member;

struct Options {
  int ranks = 4;
  int rounds = 24;
  uint64_t seed = 1;
  int kib = 512;
  int replays = 0;
  int hosts = 1;
  int registered = 0, fault = 0;
  uint64_t bound = ~uint64_t{0};

  size_t most_words() const { return static_cast<size_t>(kib) * 1024 / sizeof(uint64_t); }
};

constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5a, kGarbage = 0xdeadbeefdeadbeef;
constexpr size_t kShifts = 64;

/// One that all ranks know of.
struct Message {
  int source = 0, target = 0;
  size_t words = 0;
};

/// How the ranks call the messages of a round.
enum class Way : uint8_t {
  kGroup,       // each rank has one group, its calls in an order of its own
  kTwoStreams,  // the same on two streams in turn
  kAlone,       // two ranks: one sends, then receives; the other one receives first
  kRoot,        // one rank has a group, the others call alone
  kHalf,        // one of two ranks has a group, the other one sends, then receives
  kShares,      // all_to_all_v
  kInPlace,     // the same, which receives over what it sends
};
constexpr int kWays = 7;

bool is_of_shares(Way way) { return way == Way::kShares || way == Way::kInPlace; }

class Rank {
 public:
  Rank(Member& member, Seat& seat, const Options& options)
      : member_(member),
        seat_(seat),
        options_(options),
        ranks_(static_cast<size_t>(member.ranks())),
        send_(seat.allocate(ranks_ * block() * sizeof(uint64_t))),
        recv_(seat.allocate(ranks_ * block() * sizeof(uint64_t))),
        garbage_(seat.allocate(ranks_ * block() * sizeof(uint64_t))) {
    seat.fill(garbage_, Words(ranks_ * block(), kGarbage));
  }

  void run() {
    const std::optional<uint64_t> before = allocations();
    Result<softdev::Client> client = softdev::Client::open();
    if (!client.ok()) return member_.fail(std::string(client.status().message()));
    client_ = &client.value();
    auto other = drivers::cuda::CudaStream::create(client_->cuda());
    if (!other.ok()) return member_.fail(std::string(other.status().message()));
    other_ = &other.value();
    if (options_.registered != 0 && !(allocate() && enroll())) return;
    for (int round = 0; round < options_.rounds; ++round) {
      member_.at(static_cast<uint64_t>(round));
      if (!run_round(static_cast<uint64_t>(round))) return;
    }
    if (options_.hosts == 1 && options_.registered == 0 && allocations() != before) {
      member_.fail("something went through pinned memory of the host");
    }
    check_pinned();
    check_races();
    member_.meet();
  }

  void differ() {
    if (!allocate() || !enroll() || !member_.meet()) return;
    const bool gives_up = member_.rank() == 1;
    if (gives_up) tuttiCommDeregister(seat_.comm(), handle_);
    const size_t words = options_.most_words();
    const auto stream = seat_.stream();
    if (member_.rank() == 0) (void)tuttiSend(region_, words, tuttiUint64, 1, seat_.comm(), stream);
    if (gives_up) (void)tuttiRecv(pointer(recv_), words, tuttiUint64, 0, seat_.comm(), stream);
    seat_.synchronize();
    member_.meet();
    tuttiResult_t error = tuttiSuccess;
    tuttiCommGetAsyncError(seat_.comm(), &error);
    const std::string text = tuttiGetLastError(seat_.comm());
    const bool is_told = text.find("register and deregister on all ranks") != std::string::npos;
    if (member_.rank() < 2 && (error == tuttiSuccess || !is_told)) {
      member_.fail("does not say that other memory is registered: " + text);
    }
    member_.meet();
  }

 private:
  /// Words of a peer's part of both buffers: two messages and what stays untouched.
  size_t block() const { return 2 * options_.most_words() + 8; }

  void check_pinned() {
    if (options_.hosts == 1 || !client_->on_software_device()) return;
    const uint64_t pinned = client_->statistics().live_pinned_bytes;
    if (pinned > options_.bound) {
      member_.fail("its calls have taken " + std::to_string(pinned) + " bytes of pinned memory");
    }
  }

  void check_races() {
    if (!member_.meet() || client_->hooks.races == nullptr) return;
    if (client_->hooks.checker_overflows() > 0) member_.fail("the checker's tables are too small");
    if (client_->hooks.races() > 0) member_.fail("a race");
  }

  size_t buffer_words() const { return ranks_ * block(); }
  size_t room() const { return buffer_words() * sizeof(uint64_t) + kShifts; }
  bool allocate() {
    return went(member_, tuttiMemAllocFor(&region_, 2 * room(), seat_.stream()), seat_.comm(),
                "tuttiMemAllocFor");
  }
  bool enroll() {
    return went(member_, tuttiCommRegister(seat_.comm(), region_, 2 * room(), &handle_),
                seat_.comm(), "tuttiCommRegister");
  }
  bool deregister(uint64_t round) {
    if (options_.registered == 0 || round % 4 != 3) return true;
    return went(member_, tuttiCommDeregister(seat_.comm(), handle_), seat_.comm(),
                "tuttiCommDeregister");
  }
  /// Memory that is freed while it is registered is not what lies at its address later.
  bool renew(uint64_t round) {
    if (options_.registered == 0 || !member_.meet()) return options_.registered == 0;
    if (round % 4 == 3) return enroll();
    if (round % 8 != 2) return true;
    return went(member_, tuttiMemFree(region_), nullptr, "tuttiMemFree") && allocate();
  }

  /// Where this rank's buffers lie in the round, which no peer knows.
  void place(uint64_t round) {
    send_at_ = static_cast<std::byte*>(pointer(send_));
    recv_at_ = static_cast<std::byte*>(pointer(recv_));
    if (options_.registered == 0) return;
    Dice own(
        testing_support::mix(options_.seed + 97 + static_cast<uint64_t>(member_.rank()), round));
    auto* const region = static_cast<std::byte*>(region_);
    if (!own.one_in(3)) send_at_ = region + (own.one_in(2) ? own.below(kShifts) : 0);
    if (!own.one_in(3)) recv_at_ = region + room() + (own.one_in(2) ? own.below(kShifts) : 0);
  }

  bool copy(void* target, const void* source, size_t bytes) {
    const drivers::cuda::Cuda& cuda = client_->cuda();
    const auto done =
        cuda.call.cuMemcpyAsync(reinterpret_cast<drivers::cuda::CUdeviceptr>(target),
                                reinterpret_cast<drivers::cuda::CUdeviceptr>(source), bytes,
                                static_cast<drivers::cuda::CUstream>(seat_.stream().handle));
    if (cuda.check(done, "cuMemcpyAsync").ok()) return true;
    member_.fail("a copy failed");
    return false;
  }
  bool copy_words(void* target, const void* source) {
    return copy(target, source, buffer_words() * sizeof(uint64_t)) && seat_.synchronize();
  }

  /// As the software device counts; a board does not.
  static std::optional<uint64_t> allocations() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto* const ask =
        reinterpret_cast<decltype(&softdev_statistics)>(dlsym(driver, "softdev_statistics"));
    if (ask == nullptr) return std::nullopt;
    SoftdevStatistics statistics{};
    ask(&statistics);
    return statistics.live_allocations + statistics.kernels;
  }

  /// The same on all ranks.
  std::vector<Message> draw(uint64_t round, Way way) const {
    Dice dice(testing_support::mix(options_.seed, round));
    std::vector<Message> messages;
    const auto add = [&](int source, int target, size_t most) {
      const bool is_long = way == Way::kInPlace && dice.one_in(2);  // only those can be direct
      const size_t words = is_long ? most : dice.one_in(8) ? 0 : dice.log_uniform(most);
      messages.push_back({source, target, words});
    };
    const int root = static_cast<int>(dice.below(ranks_));
    const bool to_root = dice.one_in(2);
    const size_t on_its_way = 1024;  // a ring of 2 MiB has room for more
    for (int source = 0; source < member_.ranks(); ++source) {
      for (int target = 0; target < member_.ranks(); ++target) {
        const bool are_two = source != target && source / 2 == target / 2;
        const bool of_root = source != target && (to_root ? target : source) == root;
        if (way == Way::kHalf && are_two) add(source, target, on_its_way);
        if (way == Way::kAlone && are_two) add(source, target, options_.most_words());
        if (way == Way::kRoot && of_root) add(source, target, options_.most_words());
        if (way >= Way::kAlone && !is_of_shares(way)) continue;
        for (uint64_t left = is_of_shares(way) ? 1 : dice.below(3); left > 0; --left) {
          add(source, target, options_.most_words());
        }
      }
    }
    if (way == Way::kInPlace) make_symmetric(messages);
    return messages;
  }

  /// In place both messages of a pair have one length.
  void make_symmetric(std::vector<Message>& messages) const {
    for (Message& message : messages) {
      const auto target = static_cast<size_t>(message.target);
      if (message.target >= message.source) continue;
      message.words = messages[target * ranks_ + static_cast<size_t>(message.source)].words;
    }
  }

  bool run_round(uint64_t round) {
    const auto way = static_cast<Way>(testing_support::mix(options_.seed + 7, round) % kWays);
    place(round);
    if (way == Way::kInPlace) recv_at_ = send_at_;
    return run_way(round, way) && renew(round);
  }

  bool run_way(uint64_t round, Way way) {
    const std::vector<Message> messages = draw(round, way);
    const auto put = [&] {
      return is_of_shares(way) ? call_shares(messages) : call(messages, way, round);
    };
    if (options_.replays == 0 || round % 2 == 0) {
      return run_once(messages, round, [&] { return put() && deregister(round); });
    }
    bool is_put = false;
    const auto stream = static_cast<drivers::cuda::CUstream>(seat_.stream().handle);
    const Graph graph(*client_, stream, [&] {
      follow(other_->get(), stream);
      is_put = put();
      follow(stream, other_->get());
    });
    for (int run = 0; is_put && run < options_.replays; ++run) {
      const auto launch = [&] { return graph.launch(stream), true; };
      is_put = run_once(messages, round + 1000 * static_cast<uint64_t>(run), launch);
      if (run == 0) is_put = is_put && deregister(round);
    }
    return is_put;
  }

  /// With data that differ from those of other runs.
  bool run_once(const std::vector<Message>& messages, uint64_t run,
                const std::function<bool()>& put) {
    const Words untouched(buffer_words(), kUntouched);
    if (!copy_words(recv_at_, untouched.data())) return false;
    Words words(ranks_ * block(), kUntouched);
    for_mine(messages, [&](const Message& message, bool sends, size_t at) {
      for (size_t i = 0; sends && i < message.words; ++i) {
        words[at + i] = word_of(message.source, message.target, at + i + run * 977);
      }
    });
    if (!copy_words(send_at_, words.data()) || !put()) return false;
    // The peers have all of it when the stream is here.
    const size_t bytes = buffer_words() * sizeof(uint64_t);
    const bool overwrites = options_.registered != 0 && send_at_ != recv_at_;
    if (overwrites && !copy(send_at_, pointer(garbage_), bytes)) return false;
    if (!seat_.synchronize() || !other_->synchronize().ok()) {
      member_.fail("a stream failed");
      return false;
    }
    return check(messages, run);
  }

  /// All that is put into `behind` from now on comes behind what `before` holds.
  void follow(drivers::cuda::CUstream behind, drivers::cuda::CUstream before) const {
    const auto event = drivers::cuda::CudaEvent::create(client_->cuda());
    (void)event.value().record(before);
    (void)event.value().make_wait(behind);
  }

  /// visit(message, sends, word of the buffer) for this rank's ends; the second message with a peer
  /// lies behind the first. Both ends of a message lie at the same place of their blocks.
  void for_mine(const std::vector<Message>& messages,
                const std::function<void(const Message&, bool, size_t)>& visit) const {
    std::vector<size_t> sent(ranks_, 0), received(ranks_, 0);
    for (const Message& message : messages) {
      const auto source = static_cast<size_t>(message.source);
      const auto target = static_cast<size_t>(message.target);
      if (message.source == member_.rank()) {
        visit(message, true, target * block() + sent[target]);
        sent[target] += message.words;
      }
      if (message.target == member_.rank()) {
        visit(message, false, source * block() + received[source]);
        received[source] += message.words;
      }
    }
  }

  struct End {
    Message message;
    bool sends = false;
    size_t at = 0;
  };

  bool issue(const End& end, tuttiStream_t stream) {
    std::byte* const memory = (end.sends ? send_at_ : recv_at_) + end.at * sizeof(uint64_t);
    const size_t count = end.message.words * unit();
    const tuttiResult_t result =
        end.sends ? tuttiSend(memory, count, type(), end.message.target, seat_.comm(), stream)
                  : tuttiRecv(memory, count, type(), end.message.source, seat_.comm(), stream);
    return went(member_, result, seat_.comm(), end.sends ? "tuttiSend" : "tuttiRecv");
  }

  /// Buffers at any byte hold bytes.
  tuttiDataType_t type() const { return options_.registered != 0 ? tuttiUint8 : tuttiUint64; }
  size_t unit() const { return options_.registered != 0 ? sizeof(uint64_t) : 1; }

  // In an order of the rank's own; the ends of a pair and direction keep theirs.
  void shuffle(std::vector<End>& ends, uint64_t round) const {
    Dice dice(
        testing_support::mix(options_.seed + 31 * static_cast<uint64_t>(member_.rank()), round));
    std::vector<uint64_t> ranking(2 * ranks_);
    for (uint64_t& rank : ranking) rank = dice.next();
    const auto key = [&](const End& end) {
      const int peer = end.sends ? end.message.target : end.message.source;
      return ranking[2 * static_cast<size_t>(peer) + (end.sends ? 1 : 0)];
    };
    std::stable_sort(ends.begin(), ends.end(),
                     [&](const End& a, const End& b) { return key(a) < key(b); });
  }

  bool call(const std::vector<Message>& messages, Way way, uint64_t round) {
    std::vector<End> ends;
    for_mine(messages, [&](const Message& message, bool sends, size_t at) {
      ends.push_back({message, sends, at});
    });
    const bool is_first = member_.rank() % 2 == 0;
    const bool grouped = way == Way::kGroup || way == Way::kTwoStreams ||
                         (way == Way::kRoot && ends.size() > 1) || (way == Way::kHalf && is_first);
    if (grouped) {
      shuffle(ends, round);
    } else {
      const bool sends_first = way == Way::kHalf || is_first;
      std::stable_sort(ends.begin(), ends.end(), [&](const End& a, const End& b) {
        return sends_first ? a.sends > b.sends : a.sends < b.sends;
      });
    }
    if (grouped && !went(member_, tuttiGroupStart(), nullptr, "tuttiGroupStart")) return false;
    for (size_t i = 0; i < ends.size(); ++i) {
      const bool on_other = way == Way::kTwoStreams && i % 2 == 1;
      if (!issue(ends[i], on_other ? tuttiStreamCuda(other_->get()) : seat_.stream())) return false;
    }
    return !grouped || went(member_, tuttiGroupEnd(), seat_.comm(), "tuttiGroupEnd");
  }

  bool call_shares(const std::vector<Message>& messages) {
    std::vector<size_t> sent(ranks_), received(ranks_), places(ranks_);
    for (size_t peer = 0; peer < ranks_; ++peer) places[peer] = peer * block() * unit();
    for_mine(messages, [&](const Message& message, bool sends, size_t) {
      if (sends) sent[static_cast<size_t>(message.target)] = message.words * unit();
      if (!sends) received[static_cast<size_t>(message.source)] = message.words * unit();
    });
    return went(member_,
                tuttiAllToAllV(send_at_, sent.data(), places.data(), recv_at_, received.data(),
                               places.data(), type(), seat_.comm(), seat_.stream()),
                seat_.comm(), "tuttiAllToAllV");
  }

  bool check(const std::vector<Message>& messages, uint64_t run) {
    Words expected(ranks_ * block(), kUntouched);
    for_mine(messages, [&](const Message& message, bool sends, size_t at) {
      if (sends) return;
      const size_t in_block = at - static_cast<size_t>(message.source) * block();
      const size_t from = static_cast<size_t>(message.target) * block() + in_block;
      for (size_t i = 0; i < message.words; ++i) {
        expected[at + i] = word_of(message.source, message.target, from + i + run * 977);
      }
    });
    Words got(buffer_words());
    if (!copy_words(got.data(), recv_at_)) return false;
    const auto [found, wanted] = std::mismatch(got.begin(), got.end(), expected.begin());
    if (found == got.end()) return true;
    char text[160];
    std::snprintf(text, sizeof text, "run %d: word %zu of recv is %016llx, not %016llx",
                  static_cast<int>(run), static_cast<size_t>(found - got.begin()),
                  static_cast<unsigned long long>(*found),
                  static_cast<unsigned long long>(*wanted));
    member_.fail(text);
    return false;
  }

  Member& member_;
  Seat& seat_;
  const Options options_;
  const size_t ranks_;
  const drivers::cuda::DeviceMemory send_;
  const drivers::cuda::DeviceMemory recv_, garbage_;
  void *region_ = nullptr, *handle_ = nullptr;  // for both buffers
  std::byte *send_at_ = nullptr, *recv_at_ = nullptr;
  const softdev::Client* client_ = nullptr;
  const drivers::cuda::CudaStream* other_ = nullptr;
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, kMaxRanks)},
                     {"--rounds", into(options.rounds, 1)},
                     {"--seed", into(options.seed)},
                     {"--kib", into(options.kib, 16)},
                     {"--hosts", into(options.hosts, 1, 8)},
                     {"--bound", into(options.bound)},
                     {"--registered", into(options.registered, 0, 1)},
                     {"--fault", into(options.fault, 0, 1)},
                     {"--replays", into(options.replays, 0)}})) {
    return 2;
  }
  const auto body = [&](Member& member) {
    const std::unique_ptr<Seat> seat = Seat::open(member);
    if (seat == nullptr) return;
    Rank rank(member, *seat, options);
    options.fault != 0 ? rank.differ() : rank.run();
  };
  TeamShape shape = TeamShape::processes(options.ranks);
  for (int rank = 0; options.hosts > 1 && rank < options.ranks; ++rank) {
    const std::string host = "host-" + std::to_string(rank * options.hosts / options.ranks);
    shape.environment.push_back({{"TUTTI_HOST_ID", host}});
  }
  const TeamResult result = run_team(
      shape, body, [](uint64_t step) { return "round " + std::to_string(step); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
