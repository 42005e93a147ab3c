// Facts about which calls come back while a stream waits for a peer: where one does not, the host
// would wait, too.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

std::string allocate(const Bench& bench) {
  bench.held_stream();
  CUdeviceptr address = 0;
  return bench.comes_back([&bench, &address] { bench.more.cuMemAlloc(&address, 4096); });
}

std::string free_memory(const Bench& bench) {
  const CUdeviceptr address = bench.zeros();
  bench.held_stream();
  return bench.comes_back([&bench, address] { bench.more.cuMemFree(address); });
}

std::string allocate_pinned(const Bench& bench) {
  bench.held_stream();
  void* data = nullptr;
  return bench.comes_back([&bench, &data] { bench.call.cuMemHostAlloc(&data, 4096, 0); });
}

std::string free_pinned(const Bench& bench) {
  void* const data = const_cast<uint32_t*>(bench.pinned());
  bench.held_stream();
  return bench.comes_back([&bench, data] { bench.call.cuMemFreeHost(data); });
}

std::string create_stream(const Bench& bench) {
  bench.held_stream();
  return bench.comes_back([&bench] { bench.stream(); });
}

std::string destroy_stream(const Bench& bench) {
  CUstream held = bench.held_stream();
  return bench.comes_back([&bench, held] { bench.call.cuStreamDestroy(held); });
}

std::string copy_to_pageable(const Bench& bench) {
  const CUdeviceptr source = bench.zeros();
  CUstream held = bench.held_stream();
  static char target[64];
  return bench.comes_back([&bench, source, held] {
    bench.call.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(target), source, sizeof target, held);
  });
}

std::string copy_in_legacy_stream(const Bench& bench) {
  const CUdeviceptr target = bench.zeros();
  bench.held_stream();
  static const char source[64] = {};
  return bench.comes_back(
      [&bench, target] { bench.more.cuMemcpyHtoD(target, source, sizeof source); });
}

std::string map_virtual_memory(const Bench& bench) {
  bench.held_stream();
  return bench.comes_back([&bench] {
    Result<cuda::DeviceMemory> memory =
        cuda::DeviceMemory::allocate(bench.client.cuda(), bench.device, 4096);
    static_cast<void>(new Result<cuda::DeviceMemory>(std::move(memory)));  // never unmapped
  });
}

std::string synchronize_behind_destroyed(const Bench& bench) {
  bench.call.cuStreamDestroy(bench.held_stream());
  return bench.comes_back([&bench] { bench.more.cuCtxSynchronize(); });
}

/// So many writes behind a wait.
std::string writes_behind_a_wait(const Bench& bench, int writes) {
  const CUdeviceptr word = bench.zeros();
  CUstream held = bench.held_stream();
  return bench.comes_back([&bench, word, held, writes] {
    for (int i = 0; i < writes; ++i) bench.more.cuStreamWriteValue32(held, word, 1, 0);
  });
}

std::string few_writes_behind_a_wait(const Bench& bench) {
  return writes_behind_a_wait(bench, 900);
}

std::string many_writes_behind_a_wait(const Bench& bench) {
  return writes_behind_a_wait(bench, 5000);
}

std::string call_in_host_function(const Bench& bench) {
  struct Given {
    const Bench* bench;
    std::atomic<int> result;
  };
  Given given{&bench, -1};
  CUstream stream = bench.stream();
  bench.call.cuLaunchHostFunc(
      stream,
      [](void* data) {
        auto* inside = static_cast<Given*>(data);
        CUdeviceptr address = 0;
        inside->result = inside->bench->more.cuMemAlloc(&address, 64);
      },
      &given);
  bench.call.cuStreamSynchronize(stream);
  return bench.name(static_cast<CUresult>(given.result.load()));
}

std::string call_after_fork(const Bench& bench) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    const CUresult result = bench.more.cuMemAlloc(&address, 64);
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  CUresult result = kSuccess;
  const bool answered = read(ends[0], &result, sizeof result) == sizeof result;
  waitpid(child, nullptr, 0);
  return answered ? bench.name(result) : "no answer";
}

}  // namespace

std::vector<Fact> blocking_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  return {
      {"cuMemAlloc while a stream waits", "returns", kTaken, allocate},
      {"cuMemFree while a stream waits", "blocks", kTaken, free_memory},
      {"cuMemHostAlloc while a stream waits", "returns", kTaken, allocate_pinned},
      {"cuMemFreeHost while a stream waits", "blocks", kTaken, free_pinned},
      {"device memory made and mapped while a stream waits", "returns", kTaken, map_virtual_memory},
      {"cuStreamCreate while a stream waits", "returns", kTaken, create_stream},
      {"cuStreamDestroy of the stream that waits", "returns", kSaid, destroy_stream},
      {"a copy to pageable memory behind a wait", "blocks", kSaid, copy_to_pageable},
      {"a copy in the legacy stream, a non-blocking one waits", "returns", kSaid,
       copy_in_legacy_stream},
      {"cuCtxSynchronize when a stream that waits was destroyed", "blocks", kSaid,
       synchronize_behind_destroyed},
      {"900 writes behind a wait", "returns", kTaken, few_writes_behind_a_wait},
      {"5000 writes behind a wait", "blocks", kTaken, many_writes_behind_a_wait},
      {"a call of the driver in a host function", "CUDA_ERROR_NOT_PERMITTED", kSaid,
       call_in_host_function},
      {"a call of the driver in a child that was forked", "CUDA_ERROR_NOT_INITIALIZED", kTaken,
       call_after_fork},
  };
}

}  // namespace softdev
