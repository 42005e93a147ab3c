// stream_order: the calls of one communicator run in the order in which they were made, whatever
// streams they are on. In each round a first call adds up what the ranks bring, in place, on a
// stream that is held up; a second one, in place on the same memory, takes the greatest of its
// results on another stream; then the first stream is let go on. In any other order the result is
// wrong.
//
//   --ranks N     processes (default 2)
//   --rounds N    until the first wrong result (default 3)
//   --on WHICH    other: two streams; again: the first one is destroyed behind its call, and the
//                 second one gets its handle; per_thread: the per-thread default streams of two
//                 threads, which have one handle; legacy: the second one is the legacy default
//                 stream; one: both calls in one group, on one stream
//   --engines N   0: that of the settings; 1: the second call goes by the host; 2: the first
//
// Exit status: 0 all was right, 1 it was not, 2 the command line.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "include/tutti/requests.h"
#include "tests/device/must.h"
#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using testing_support::Member;

constexpr size_t kWords = 20000;

struct Settings {
  int rounds = 3;
  std::string on = "other";
  int engines = 0;
};

class Program {
 public:
  Program(Member& member, Seat& seat, const Settings& settings)
      : member_(member),
        seat_(seat),
        settings_(settings),
        client_(must(softdev::Client::open())),
        memory_(seat.allocate(kWords * sizeof(uint64_t))),
        gate_(must(driver::PinnedMemory::allocate(client_.cuda(), sizeof(uint32_t)))) {}

  void run() {
    for (int round = 0; round < settings_.rounds; ++round) {
      member_.at(static_cast<uint64_t>(round));
      if (!run_round() || !member_.meet()) return;
    }
  }

 private:
  std::atomic_ref<uint32_t> gate() {
    return std::atomic_ref(*static_cast<uint32_t*>(gate_.data()));
  }

  driver::CUstream new_stream() {
    driver::CUstream made = nullptr;
    client_.more.cuStreamCreate(&made, driver::kStreamNonBlocking);
    return made;
  }

  /// Some stream with that handle: the driver may give it to one of the next.
  driver::CUstream with_handle(driver::CUstream handle) {
    std::vector<driver::CUstream> others;
    driver::CUstream made = new_stream();
    for (int more = 0; made != handle && more < 64; ++more) {
      others.push_back(std::exchange(made, new_stream()));
    }
    for (const driver::CUstream other : others) client_.call().cuStreamDestroy(other);
    if (made != handle) member_.fail("no new stream has the handle of the one that is gone");
    return made;
  }

  bool call(int number, driver::CUstream on) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    const bool by_host = settings_.engines == 2 - number;
    if (by_host) options.engine = tuttiEngineHost;
    tuttiCall_t asked = TUTTI_CALL_INITIALIZER;
    asked.collective = tuttiCollAllReduce;
    asked.send = asked.recv = pointer(memory_);
    asked.count = kWords;
    asked.type = tuttiUint64;
    asked.op = number == 0 ? tuttiSum : tuttiMax;
    const tuttiResult_t result = tuttiSubmit(&asked, seat_.comm(), tuttiStreamCuda(on),
                                             by_host ? &options : nullptr, nullptr);
    return went(member_, result, seat_.comm(), "tuttiSubmit");
  }

  bool hold(driver::CUstream stream) {
    return client_.more.cuStreamWaitValue32(stream, gate_.address(), 1, 0) == driver::kSuccess;
  }

  // The first call, and the stream of the second one.
  bool begin(driver::CUstream& first, driver::CUstream& second) {
    const auto per_thread = reinterpret_cast<driver::CUstream>(driver::kStreamPerThread);
    if (settings_.on == "per_thread") {
      first = second = per_thread;
      bool good = false;
      std::thread other([&] {
        const driver::ContextScope scope(client_.cuda(), context_);
        good = hold(per_thread) && call(0, per_thread);
      });
      other.join();
      return good;
    }
    first = new_stream();
    if (!hold(first) || !call(0, first)) return false;
    if (settings_.on == "again") {
      client_.call().cuStreamDestroy(first);
      second = with_handle(first);
    } else {
      second = settings_.on == "legacy" ? nullptr : new_stream();
    }
    return true;
  }

  bool calls_in_a_group(driver::CUstream& stream) {
    stream = new_stream();
    tuttiGroupStart();
    const bool called = hold(stream) && call(0, stream) && call(1, stream);
    return went(member_, tuttiGroupEnd(), nullptr, "tuttiGroupEnd") && called;
  }

  bool run_round() {
    gate().store(0);
    seat_.fill(memory_, Words(kWords, static_cast<uint64_t>(member_.rank()) + 1));
    if (!member_.meet()) return false;
    driver::CUstream first = nullptr, second = nullptr;
    if (settings_.on == "one") {
      if (!calls_in_a_group(second)) return false;
    } else if (!begin(first, second) || !call(1, second)) {
      return false;
    }
    testing_support::sleep_ns(20'000'000);  // what does not wait may go on
    gate().store(1);
    if (client_.call().cuStreamSynchronize(second) != driver::kSuccess) return false;
    const Words got = seat_.read(memory_, kWords);
    const auto ranks = static_cast<uint64_t>(member_.ranks());
    const bool right = got == Words(kWords, ranks * (ranks + 1) / 2);
    if (!right) member_.fail("WRONG: the calls ran in another order");
    if (settings_.on != "per_thread" && second != nullptr) client_.call().cuStreamDestroy(second);
    if (settings_.on == "other" || settings_.on == "legacy") client_.call().cuStreamDestroy(first);
    return right;
  }

  Member& member_;
  Seat& seat_;
  const Settings& settings_;
  const softdev::Client client_;
  const driver::DeviceMemory memory_;
  const driver::PinnedMemory gate_;
  const driver::CUcontext context_ = [this] {
    driver::CUcontext current = nullptr;
    client_.call().cuCtxGetCurrent(&current);
    return current;
  }();
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Settings settings;
  TeamProgram program;
  program.ranks = 2;
  program.limit_ns = 240'000'000'000;
  program.body = [&](Member& member) {
    const std::unique_ptr<Seat> seat = Seat::open(member);
    if (seat == nullptr) return;
    Program(member, *seat, settings).run();
  };
  program.name = [](uint64_t step) { return "round " + std::to_string(step); };
  program.own = {{"--rounds", into(settings.rounds, 1)},
                 {"--on", into(settings.on)},
                 {"--engines", into(settings.engines, 0, 2)}};
  return program.run(argc, argv);
}
