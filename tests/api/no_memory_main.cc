// no_memory: calls of the C API in which one allocation finds no memory: each of the first ones of
// a call, and then ever fewer, until the call needs no more of them. It must return, with words if
// it fails, and what comes after it must work.
//
//   --only PHASE   --dense N (each of the first N, then one in N more; 8 without)
//
// Prints how many allocations of each phase were refused. Exit status: 0 all was right, 1 it was
// not, 2 the command line is wrong, 77 a sanitizer has functions of its own.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/options.h"

namespace {

// tidy: allow mutable (operator new has no other place to count)
std::atomic<bool> armed{false};
// tidy: allow mutable (as above)
std::atomic<uint64_t> made{0}, refused{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kRefuses = false;
#else
constexpr bool kRefuses = true;

namespace {

bool has_memory() {
  if (!armed.load(std::memory_order_relaxed)) return true;
  const uint64_t number = made.fetch_add(1) + 1;
  return number != refused.load();
}

void* allocate(size_t bytes, size_t alignment) {
  void* memory =
      has_memory() ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                   : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace tutti::api_test {
namespace {

constexpr int kRanks = 2;

[[noreturn]] void give_up(const std::string& what) {
  armed = false;
  std::fprintf(stderr, "allocation %lu: %s (%s)\n", static_cast<unsigned long>(refused.load()),
               what.c_str(), tuttiGetLastError(nullptr));
  _exit(1);
}

/// The calls of a phase: they go on after one that failed, as a program that is not careful does.
class Calls {
 public:
  void operator()(tuttiResult_t result, tuttiComm_t comm = nullptr) {
    if (result == tuttiSuccess || result == tuttiInProgress) return;
    failed_ = true;
    if (*tuttiGetLastError(nullptr) == '\0') give_up("an error without words");
    if (comm != nullptr && *tuttiGetLastError(comm) == '\0')
      give_up("a communicator without words");
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

void must(tuttiResult_t result, const char* what) {
  if (result != tuttiSuccess) give_up(what);
}

/// All ranks of one group, in one thread.
struct Pair {
  tuttiComm_t comms[kRanks] = {};
  tuttiStream_t stream = tuttiBlocking();

  void make() {
    must(tuttiCommInitAll(comms, kRanks, nullptr), "InitAll");
    must(tuttiStreamCreate(&stream), "StreamCreate");
  }
  void end() {
    for (tuttiComm_t& comm : comms) {
      if (comm != nullptr) (void)tuttiCommAbort(comm);
      comm = nullptr;
    }
    if (stream.kind == tuttiStreamHost) (void)tuttiStreamDestroy(stream);
    stream = tuttiBlocking();
  }
};

using Phase = std::function<void(Pair&, Calls&)>;

void sum(Pair& pair, Calls& call, tuttiStream_t stream, size_t count, tuttiRedOp_t op) {
  static std::vector<int> send(1 << 16, 1), recv[kRanks] = {send, send};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    tuttiComm_t comm = pair.comms[rank];
    call(tuttiAllReduce(send.data(), recv[rank].data(), count, tuttiInt32, op, comm, stream), comm);
  }
  call(tuttiGroupEnd());
  call(tuttiStreamSynchronize(stream));
}

void make(Pair& pair, Calls& call) { call(tuttiCommInitAll(pair.comms, kRanks, nullptr)); }

void reduce(Pair& pair, Calls& call) {
  sum(pair, call, tuttiBlocking(), 1, tuttiSum);
  sum(pair, call, tuttiBlocking(), 1 << 16, tuttiAvg);
  sum(pair, call, tuttiBlocking(), 1 << 16, tuttiAvg);
}

void queue(Pair& pair, Calls& call) {
  sum(pair, call, pair.stream, 1, tuttiSum);
  sum(pair, call, pair.stream, 1 << 16, tuttiSum);
}

void alone(Pair&, Calls& call) {
  tuttiComm_t comm = nullptr;
  call(tuttiCommInitAll(&comm, 1, nullptr));
  int send = 1, recv = 0;
  if (comm == nullptr) return;
  call(tuttiAllReduce(&send, &recv, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm);
  call(tuttiBarrier(comm, tuttiBlocking()), comm);
  call(tuttiCommDestroy(comm));
}

void transfer(Pair& pair, Calls& call) {
  int send[kRanks] = {1, 2}, recv[kRanks] = {};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    tuttiComm_t comm = pair.comms[rank];
    call(tuttiSend(&send[rank], 1, tuttiInt32, 1 - rank, comm, tuttiBlocking()), comm);
    call(tuttiRecv(&recv[rank], 1, tuttiInt32, 1 - rank, comm, tuttiBlocking()), comm);
  }
  call(tuttiGroupEnd());
}

// A group of one communicator's transfers must leave nothing for the thread's next group.
void plain(Pair& pair, Calls& call) {
  int send = 1, recv = 0;
  const auto begin = [&](int rank) {
    tuttiComm_t comm = pair.comms[rank];
    call(tuttiGroupStart());
    call(tuttiSend(&send, 1, tuttiInt32, rank, comm, tuttiBlocking()), comm);
    return comm;
  };
  begin(0);
  const tuttiResult_t unmatched = tuttiGroupEnd();
  if (unmatched == tuttiSuccess) give_up("a send to oneself without a receive");
  if (unmatched != tuttiInvalidUsage) call(unmatched);
  for (int i = 0; i < 2; ++i) {
    tuttiComm_t comm = begin(1);
    call(tuttiRecv(&recv, 1, tuttiInt32, 1, comm, tuttiBlocking()), comm);
    const tuttiResult_t result = tuttiGroupEnd();
    if (result == tuttiInvalidUsage) give_up("the group holds more than was put into it");
    call(result);
  }
}

void submit(Pair& pair, Calls& call) {
  int send = 1, recv[kRanks] = {};
  tuttiRequest_t requests[kRanks] = {};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    tuttiCall_t one = TUTTI_CALL_INITIALIZER;
    one.collective = tuttiCollAllReduce;
    one.send = &send;
    one.recv = &recv[rank];
    one.count = 1;
    one.type = tuttiInt32;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.deterministic = 1;
    call(tuttiSubmit(&one, pair.comms[rank], pair.stream, &options, &requests[rank]));
  }
  call(tuttiGroupEnd());
  for (tuttiRequest_t request : requests) {
    if (request != nullptr) call(tuttiRequestWait(request));
  }
}

void vectors(Pair& pair, Calls& call) {
  const size_t counts[kRanks] = {1, 2}, offsets[kRanks] = {0, 1};
  int send[3] = {1, 2, 3}, recv[kRanks][3] = {};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    call(tuttiAllGatherV(send, counts[rank], recv[rank], counts, offsets, tuttiInt32,
                         pair.comms[rank], tuttiBlocking()));
  }
  call(tuttiGroupEnd());
}

void split(Pair& pair, Calls& call) {
  tuttiComm_t children[kRanks] = {};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    call(tuttiCommSplit(pair.comms[rank], 0, rank, &children[rank], nullptr), pair.comms[rank]);
  }
  call(tuttiGroupEnd());
  for (tuttiComm_t child : children) {
    if (child != nullptr) call(tuttiCommAbort(child));
  }
}

void windows(Pair& pair, Calls& call) {
  int memory[kRanks] = {}, source = 1;
  tuttiWindow_t made_here[kRanks] = {};
  call(tuttiGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    call(tuttiCommWindowRegister(pair.comms[rank], &memory[rank], sizeof memory[rank],
                                 &made_here[rank], 0));
  }
  call(tuttiGroupEnd());
  if (made_here[0] == nullptr) return;
  call(tuttiPut(&source, sizeof source, 1, made_here[0], 0, tuttiBlocking()));
}

void ask(Pair& pair, Calls& call) {
  char text[4096];
  size_t needed = 0;
  tuttiSetting_t setting;
  tuttiRedOp_t op = tuttiSum;
  int two = 2;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic = 1;
  tuttiComm_t comm = pair.comms[0];
  call(tuttiExplain(comm, "all_reduce", 1000, tuttiFloat32, text, sizeof text, &needed), comm);
  for (int i = 0; i < 8; ++i) call(tuttiGetSetting(i, &setting));
  call(tuttiRedOpCreatePreMulSum(&op, &two, tuttiInt32, tuttiScalarHostImmediate, comm), comm);
  call(tuttiCommSetOptions(comm, &options), comm);
  call(tuttiCommCount(nullptr, nullptr) == tuttiSuccess ? tuttiInternalError : tuttiSuccess);
}

void destroy(Pair& pair, Calls& call) {
  for (tuttiComm_t& comm : pair.comms) {
    call(tuttiCommDestroy(comm));
    comm = nullptr;
  }
}

void finalize(Pair& pair, Calls& call) {
  for (tuttiComm_t& comm : pair.comms) {
    call(tuttiCommFinalize(comm));
    call(tuttiCommAbort(comm));
    comm = nullptr;
  }
}

struct Named {
  std::string_view name;
  Phase phase;
  bool needs_pair;
};

void check_the_rest() {
  Pair pair;
  Calls call;
  pair.make();
  sum(pair, call, tuttiBlocking(), 1, tuttiSum);
  sum(pair, call, pair.stream, 1, tuttiSum);
  if (call.failed()) give_up("what comes after it does not work");
  pair.end();
}

void refuse_each(const Named& one, uint64_t dense) {
  constexpr unsigned kLimitSeconds = 30;  // a call does not wait for what will not come
  constexpr uint64_t kChecked = 16;
  uint64_t failures = 0, tries = 0, number = 0, needed = 0;
  for (bool enough = false; !enough;) {
    alarm(kLimitSeconds);
    Pair pair;
    Calls call;
    if (one.needs_pair) pair.make();
    made = 0;
    number += 1 + number / dense;
    refused = number;
    ++tries;
    armed = true;
    one.phase(pair, call);
    armed = false;
    needed = made.load();
    enough = needed < number;
    if (enough && call.failed()) give_up("it fails with memory enough");
    if (call.failed()) ++failures;
    (void)tuttiGroupDiscard();
    pair.end();
    if (enough || tries % kChecked == 0) check_the_rest();
  }
  std::printf("%-10s %6lu allocations, %6lu refused, %6lu failures\n", one.name.data(),
              static_cast<unsigned long>(needed), static_cast<unsigned long>(tries - 1),
              static_cast<unsigned long>(failures));
  std::fflush(stdout);
}

int run(std::string_view only, uint64_t dense) {
  const Named all[] = {
      {"init", make, false},        {"alone", alone, false},      {"reduce", reduce, true},
      {"queue", queue, true},       {"transfer", transfer, true}, {"plain", plain, true},
      {"submit", submit, true},     {"vectors", vectors, true},   {"split", split, true},
      {"windows", windows, true},   {"ask", ask, true},           {"destroy", destroy, true},
      {"finalize", finalize, true},
  };
  check_the_rest();
  for (const Named& one : all) {
    if (only.empty() || only == one.name) refuse_each(one, dense);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  if (!kRefuses) return 77;
  using tutti::testing_support::into;
  std::string only;
  uint64_t dense = 8;
  if (!tutti::testing_support::read_options(argc, argv,
                                            {{"--only", into(only)}, {"--dense", into(dense)}}) ||
      dense == 0) {
    return 2;
  }
  return tutti::api_test::run(only, dense);
}
