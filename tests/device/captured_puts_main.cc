// captured_puts: three processes with a device each have a window in device memory. The last one
// captures a put into the part of the first one; then all change their ranks in place, so that the
// put is of an earlier epoch. The others remove it, which must be in vain while the graph is there,
// and nothing before says so to the others.
//
//   --ends destroys   it destroys the graph, and lives    (default)
//          killed     the edit kills it
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <cstdio>
#include <memory>
#include <string>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/device/newcomers.h"
#include "tests/device/seat.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr int kRanks = 3, kLast = kRanks - 1;
constexpr size_t kWords = 1000;
constexpr uint64_t kMsNs = 1'000'000;
constexpr uint64_t kBrieflyNs = 1'000 * kMsNs, kMostNs = 60'000 * kMsNs;

/// A number of the board beside those of newcomers.h: how many have tried in vain.
constexpr int kTried = testing_support::kMaxRanks - 1;

class Rank {
 public:
  Rank(Member& member, Seat& seat, bool kills)
      : member_(member),
        seat_(seat),
        kills_(kills),
        client_(must(softdev::Client::open())),
        stream_(must(drivers::cuda::CudaStream::create(client_.cuda()))),
        source_(seat.allocate(kWords * sizeof(uint64_t))) {}

  void run() {
    seat_.fill(source_, Words(kWords, 7));
    if (!open()) return;
    if (member_.rank() == kLast) capture();
    if (!member_.meet() || !turn()) return;
    if (member_.rank() == kLast) return be_removed();
    if (!remove_in_vain() || !await_tries() || !remove()) return;
    go_on(member_);
    if (member_.rank() == 0 && !has_come()) return;
    ok(tuttiBarrier(seat_.comm(), tuttiBlocking()), "barrier");
  }

 private:
  std::atomic<uint64_t>* numbers() { return member_.board().numbers; }
  bool ok(tuttiResult_t result, const char* call) {
    return went(member_, result, seat_.comm(), call);
  }

  bool open() {
    const size_t bytes = kWords * sizeof(uint64_t);
    return ok(tuttiMemAllocFor(&part_, bytes, seat_.stream()), "tuttiMemAllocFor") &&
           ok(tuttiCommWindowRegister(seat_.comm(), part_, bytes, &window_, 0), "window");
  }

  void capture() {
    const tuttiStream_t stream = tuttiStreamCuda(stream_.get());
    const size_t bytes = kWords * sizeof(uint64_t);
    graph_ = std::make_unique<Graph>(client_, stream_.get(), [&] {
      ok(tuttiPutSignal(pointer(source_), bytes, 0, window_, 0, 1, stream), "put");
    });
    graph_->launch(stream_.get());
    if (!stream_.synchronize().ok()) member_.fail("its stream failed");
  }

  /// 0, 1, 2 become 2, 1, 0.
  bool turn() {
    const int order[] = {2, 1, 0};
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = order;
    edit.order_count = kRanks;
    return ok(tuttiCommEdit(seat_.comm(), &edit, nullptr), "the turn");
  }

  tuttiResult_t remove(bool kills, uint64_t timeout_ns) {
    const int last = kRanks - 1 - kLast;  // by now
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.removed = &last;
    edit.removed_count = 1;
    edit.kill_removed = kills ? 1 : 0;
    edit.timeout_ns = timeout_ns;
    return tuttiCommEdit(seat_.comm(), &edit, nullptr);
  }

  bool remove_in_vain() {
    const tuttiResult_t result = remove(false, kBrieflyNs);
    const std::string why = tuttiGetLastError(seat_.comm());
    if (result != tuttiTimeout) {
      member_.fail("it was removed although it has a graph: " + why);
    } else if (member_.rank() == 0 && why.find("has captured into a graph") == std::string::npos) {
      member_.fail("it does not say why: " + why);
    }
    return result == tuttiTimeout;
  }

  /// Of both that stay: the next edit of one is not to be the other's first one.
  bool await_tries() {
    const uint64_t until_ns = now_ns() + kMostNs;
    if (member_.rank() != kLast) numbers()[kTried].fetch_add(1);
    while (numbers()[kTried].load() < kRanks - 1) {
      if (now_ns() < until_ns) {
        sleep_ns(kMsNs);
        continue;
      }
      member_.fail("the others have not tried to remove it");
      return false;
    }
    return true;
  }

  bool remove() { return ok(remove(kills_, kMostNs), "the edit without it"); }

  bool has_come() {
    const auto to = source_.address();
    const auto from = reinterpret_cast<drivers::cuda::CUdeviceptr>(part_);
    const bool is_right = seat_.copy_at(to, from, kWords * sizeof(uint64_t)) &&
                          seat_.read(source_, kWords) == Words(kWords, 7);
    if (!is_right) member_.fail("the words of the put are not there");
    return is_right;
  }

  void be_removed() {
    if (kills_) {  // the team would take a rank that is not done for a failed one
      member_.board().slots[kLast].state.store(testing_support::RankState::kDone);
      for (;;) sleep_ns(kMostNs);
    }
    if (!await_tries()) return;
    graph_.reset();
    leave(member_, kRanks - 1, seat_.give_comm());
  }

  Member& member_;
  Seat& seat_;
  const bool kills_;
  const softdev::Client client_;
  const drivers::cuda::CudaStream stream_;
  const drivers::cuda::DeviceMemory source_;
  void* part_ = nullptr;
  tuttiWindow_t window_ = nullptr;
  std::unique_ptr<Graph> graph_;
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  std::string ends = "destroys";
  if (!read_options(argc, argv, {{"--ends", into(ends)}})) return 2;
  if (ends != "destroys" && ends != "killed") return 2;
  const bool kills = ends == "killed";
  const TeamResult result = run_team(
      TeamShape::processes(kRanks),
      [kills](Member& member) {
        const std::unique_ptr<Seat> seat = Seat::open(member);
        if (seat != nullptr) Rank(member, *seat, kills).run();
      },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  const std::string expected =
      kills ? "  process " + std::to_string(kLast) + " ended by signal 9\n" : "";
  if (result.report == expected) return 0;
  std::printf("%s", result.report.c_str());
  return 1;
}
