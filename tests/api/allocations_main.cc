// allocations: how often a repeated small call allocates memory, and how many system calls a
// blocking one makes but to wait. Everything that allocates, by whichever function, ends in one of
// the four below; they count in front of the C library's own.
//
//   --network default|tcp  --threads 0|1
//
// Prints one line for each kind of call. Exit status: 0 none allocated or called the system, 1 one
// did, 2 the command line is wrong, 77 a sanitizer has functions of its own.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/support/options.h"
#include "tests/support/system_calls.h"
#include "tests/support/team.h"

namespace {

// tidy: allow mutable (the C library's functions have no other place to count)
std::atomic<uint64_t> allocations{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kWarmUp = 600;  // every ring has come round
constexpr int kCalls = 1000;
constexpr uint64_t kLimitNs = 500'000'000'000;

class Rank {
 public:
  explicit Rank(Member& member) : member_(member) {}

  void run(bool must_be_none) {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return;
    check(tuttiCommInitRank(&comm_, member_.ranks(), id, member_.rank()));
    tuttiStream_t queue;
    check(tuttiStreamCreate(&queue));
    const char* names[] = {"BLOCKING", "HOST"};
    if (!fill(queue)) return;
    watches_ = testing_support::watch_system_calls();
    for (const tuttiStream_t& stream : {tuttiBlocking(), queue}) {
      const std::string kind = names[stream.kind];
      const auto count = [&](const char* name, const std::function<void()>& call) {
        measure(kind + " " + name, stream, must_be_none, call);
      };
      count("all_reduce",
            [&] { check(tuttiAllReduce(&send_, &recv_, 1, tuttiInt64, tuttiSum, comm_, stream)); });
      count("broadcast",
            [&] { check(tuttiBroadcast(&send_, &recv_, 1, tuttiInt64, 0, comm_, stream)); });
      count("barrier", [&] { check(tuttiBarrier(comm_, stream)); });
      count("send/recv", [&] {
        if (member_.rank() == 0) {
          check(tuttiSend(&send_, 1, tuttiInt64, 1, comm_, stream));
        } else {
          check(tuttiRecv(&recv_, 1, tuttiInt64, 0, comm_, stream));
        }
      });
    }
    check(tuttiStreamDestroy(queue));
    check(tuttiCommDestroy(comm_));
  }

 private:
  void check(tuttiResult_t result) {
    if (result != tuttiSuccess) member_.fail(tuttiGetLastError(nullptr));
  }

  // How long a queue ever is depends on which thread runs when; here it is longer than in any call
  // that is measured, whoever runs: each rank in turn has many calls that wait for the other's.
  bool fill(tuttiStream_t queue) {
    constexpr int kTurns = 6, kGroups = 2, kLong = 16;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn % 2 != member_.rank() && !member_.meet()) return false;
      for (int group = 0; group < kGroups; ++group) {  // they come to the queue at once
        check(tuttiGroupStart());
        for (int i = 0; i < kLong; ++i) check(tuttiBarrier(comm_, queue));
        check(tuttiGroupEnd());
      }
      if (turn % 2 == member_.rank() && !member_.meet()) return false;
      check(tuttiStreamSynchronize(queue));
    }
    return true;
  }

  // Of all threads of the process: what a queued call costs, the engine's thread pays.
  void measure(const std::string& name, tuttiStream_t stream, bool must_be_none,
               const std::function<void()>& call) {
    const auto repeat = [&](int times) {
      for (int i = 0; i < times; ++i) {
        call();
        // A queue that grows has to allocate.
        if (i % 4 == 3) check(tuttiStreamSynchronize(stream));
      }
      check(tuttiStreamSynchronize(stream));
    };
    repeat(kWarmUp);
    if (!member_.meet()) return;
    const uint64_t before = allocations.load(), calls_before = testing_support::system_calls();
    repeat(kCalls);
    const uint64_t calls = testing_support::system_calls() - calls_before;
    const uint64_t made = allocations.load() - before;
    if (!member_.meet()) return;
    const bool blocks = stream.kind == tuttiBlocking().kind;
    if (member_.rank() == 0) {
      std::printf("%-22s %6.3f allocations a call%s", name.c_str(),
                  static_cast<double>(made) / kCalls, blocks && watches_ ? "" : "\n");
      if (blocks && watches_) std::printf(", %6.3f system calls\n", double(calls) / kCalls);
    }
    if (made > 0 && must_be_none) member_.fail(name + " allocates");
    if (blocks && calls > 0 && must_be_none) {
      member_.fail(name + " makes system calls; the last was number " +
                   std::to_string(testing_support::last_system_call()));
    }
    (void)member_.meet();
  }

  Member& member_;
  tuttiComm_t comm_ = nullptr;
  bool watches_ = false;
  int64_t send_ = 1, recv_ = 0;
};

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  if (!kCounts) return 77;
  // Messages of a socket queue as they come; there it is only told.
  const tutti::testing_support::TeamProgram program = {
      .ranks = 2,
      .limit_ns = kLimitNs,
      .body = [](Member& member) { Rank(member).run(std::getenv("TUTTI_TRANSPORTS") == nullptr); },
      .name = [](uint64_t) { return std::string("calls"); }};
  return program.run(argc, argv);
}
