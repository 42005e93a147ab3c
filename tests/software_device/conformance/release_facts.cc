// Facts about what ends a stream's wait for a word.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

/// Memory that processes share, as their host sees it and as the device does.
struct SharedWord {
  explicit SharedWord(const Bench& bench) {
    data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    known =
        bench.call.cuMemHostRegister(data, kBytes, kHostRegisterPortable | kHostRegisterDeviceMap);
    bench.call.cuMemHostGetDevicePointer(&address, data, 0);
  }
  static constexpr size_t kBytes = 65536;
  void* data = nullptr;
  CUdeviceptr address = 0;
  CUresult known = kErrorInvalidValue;
};

template <class Word>
void store(void* word, Word value) {
  __atomic_store_n(static_cast<Word*>(word), value, __ATOMIC_RELEASE);
}

std::string write_in_another_stream(const Bench& bench) {
  const CUdeviceptr word = bench.zeros();
  CUstream waits = bench.stream();
  bench.more.cuStreamWaitValue32(waits, word, 1, kWaitAtLeast);
  nap();
  bench.more.cuStreamWriteValue32(bench.stream(), word, 1, 0);
  return bench.end_of(waits);
}

std::string copy_of_a_word(const Bench& bench) {
  const CUdeviceptr word = bench.zeros();
  CUstream waits = bench.stream();
  CUstream copies = bench.stream();
  bench.more.cuStreamWaitValue32(waits, word, 1, kWaitAtLeast);
  bench.more.cuStreamWriteValue32(copies, word + 64, 1, 0);
  bench.call.cuMemcpyAsync(word, word + 64, 4, copies);
  return bench.end_of(waits);
}

std::string store_to_pinned(const Bench& bench) {
  volatile uint32_t* word = bench.pinned();
  CUstream waits = bench.stream();
  bench.more.cuStreamWaitValue32(waits, reinterpret_cast<CUdeviceptr>(word), 1, kWaitAtLeast);
  nap();
  store<uint32_t>(const_cast<uint32_t*>(word), 1);
  return bench.end_of(waits);
}

std::string store_to_shared_32(const Bench& bench) {
  const SharedWord word(bench);
  CUstream waits = bench.stream();
  bench.more.cuStreamWaitValue32(waits, word.address, 1, kWaitAtLeast);
  nap();
  store<uint32_t>(word.data, 1);
  return bench.end_of(waits);
}

std::string store_to_shared_64(const Bench& bench) {
  const SharedWord word(bench);
  CUstream waits = bench.stream();
  const uint64_t value = (uint64_t{7} << 32) + 1;  // the halves alone would not do
  bench.more.cuStreamWaitValue64(waits, word.address, value, kWaitAtLeast);
  nap();
  store<uint64_t>(word.data, value);
  return bench.end_of(waits);
}

/// Forks before the driver is touched there: the child only stores.
template <class Word>
std::string store_by_another_process(const Bench& bench) {
  const SharedWord word(bench);
  CUstream waits = bench.stream();
  const CUresult result =
      sizeof(Word) == 4 ? bench.more.cuStreamWaitValue32(waits, word.address, 1, kWaitAtLeast)
                        : bench.more.cuStreamWaitValue64(waits, word.address, 1, kWaitAtLeast);
  if (result != kSuccess) return bench.name(result);
  const pid_t child = fork();
  if (child == 0) {
    nap();
    store<Word>(word.data, 1);
    _exit(0);
  }
  const std::string end = bench.end_of(waits);
  waitpid(child, nullptr, 0);
  return end;
}

/// A wait in each of many streams of one context, ended by `release`.
std::string held_streams(const Bench& bench, int streams,
                         const std::function<void(volatile uint32_t*)>& release) {
  volatile uint32_t* word = bench.pinned();
  std::vector<CUstream> waiting;
  for (int i = 0; i < streams; ++i) {
    waiting.push_back(bench.stream());
    bench.more.cuStreamWaitValue32(waiting.back(), reinterpret_cast<CUdeviceptr>(word), 1,
                                   kWaitAtLeast);
  }
  release(word);
  for (CUstream stream : waiting) {
    const std::string end = bench.end_of(stream);
    if (end != "CUDA_SUCCESS") return end;
  }
  return "completes";
}

std::string held_streams_by_a_stream(const Bench& bench, int streams) {
  return held_streams(bench, streams, [&](volatile uint32_t* word) {
    bench.more.cuStreamWriteValue32(bench.stream(), reinterpret_cast<CUdeviceptr>(word), 1, 0);
  });
}

std::string held_streams_by_the_host(const Bench& bench) {
  return held_streams(bench, 32, [](volatile uint32_t* word) {
    nap();
    store<uint32_t>(const_cast<uint32_t*>(word), 1);
  });
}

std::string legacy_write(const Bench& bench, unsigned flags) {
  const CUdeviceptr word = bench.zeros();
  CUstream waits = bench.stream(flags);
  bench.more.cuStreamWaitValue32(waits, word, 1, kWaitAtLeast);
  bench.more.cuStreamWriteValue32(nullptr, word, 1, 0);
  return bench.end_of(waits);
}

std::string event_across_streams(const Bench& bench) {
  const CUdeviceptr word = bench.zeros();
  CUstream writes = bench.stream(), copies = bench.stream();
  CUevent event = nullptr;
  bench.call.cuEventCreate(&event, kEventDisableTiming);
  for (uint32_t i = 1; i <= 50; ++i) {
    bench.more.cuStreamWriteValue32(writes, word, i, 0);
    bench.call.cuEventRecord(event, writes);
    bench.call.cuStreamWaitEvent(copies, event, 0);
    bench.call.cuMemcpyAsync(word + 64, word, 4, copies);
    bench.call.cuEventRecord(event, copies);
    bench.call.cuStreamWaitEvent(writes, event, 0);
  }
  bench.call.cuStreamSynchronize(copies);
  return std::to_string(bench.word_at(word + 64));
}

}  // namespace

std::vector<Fact> release_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  std::vector<Fact> facts = {
      {"a write in another stream ends a wait", "CUDA_SUCCESS", kTaken, write_in_another_stream},
      {"a copy of 4 bytes ends a wait", "CUDA_SUCCESS", kTaken, copy_of_a_word},
      {"a store of the host to pinned memory ends a wait", "CUDA_SUCCESS", kTaken, store_to_pinned},
      {"a store to registered shared memory ends a 32-bit wait", "CUDA_SUCCESS", kTaken,
       store_to_shared_32},
      {"a store to registered shared memory ends a 64-bit wait", "CUDA_SUCCESS", kTaken,
       store_to_shared_64},
      {"a store of another process ends a 32-bit wait", "CUDA_SUCCESS", kTaken,
       store_by_another_process<uint32_t>},
      {"a store of another process ends a 64-bit wait", "CUDA_SUCCESS", kTaken,
       store_by_another_process<uint64_t>},
      {"waits in 32 streams, ended by a store of the host", "completes", kTaken,
       held_streams_by_the_host},
      {"a write in the legacy stream, for a wait in a blocking one", "hang", kSaid,
       [](const Bench& bench) { return legacy_write(bench, 0); }},
      {"a write in the legacy stream, for a wait in a non-blocking one", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return legacy_write(bench, kStreamNonBlocking); }},
      {"events order two streams", "50", kSaid, event_across_streams},
  };
  const auto waits = [&facts](const char* name, int streams) {
    facts.push_back({name, "", kTaken, [streams](const Bench& bench) {
                       return held_streams_by_a_stream(bench, streams);
                     }});
  };
  waits("waits in 2 streams, ended by one more stream", 2);
  waits("waits in 4 streams, ended by one more stream", 4);
  waits("waits in 8 streams, ended by one more stream", 8);
  waits("waits in 16 streams, ended by one more stream", 16);
  waits("waits in 32 streams, ended by one more stream", 32);
  return facts;
}

}  // namespace softdev
