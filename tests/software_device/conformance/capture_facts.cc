// Facts about stream capture and graphs, and the attributes of the device, which are only recorded.
#include <array>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

std::string allocate_while_captured(const Bench& bench) {
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureGlobal);
  CUdeviceptr address = 0;
  return bench.name(bench.more.cuMemAlloc(&address, 64));
}

std::string allocate_outside_captures(const Bench& bench) {
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureGlobal);
  const cuda::UncapturedScope uncaptured(bench.client.cuda());
  CUdeviceptr address = 0;
  return bench.name(bench.more.cuMemAlloc(&address, 64));
}

/// A module that any driver takes: PTX without a function.
std::string load_module(const Bench& bench) {
  static const char kNothing[] = ".version 7.0\n.target sm_50\n.address_size 64\n";
  CUmodule module = nullptr;
  return bench.name(bench.call.cuModuleLoadData(&module, kNothing));
}

std::string load_module_while_captured(const Bench& bench) {
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureGlobal);
  return load_module(bench);
}

std::string load_module_outside_captures(const Bench& bench) {
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureGlobal);
  const cuda::UncapturedScope uncaptured(bench.client.cuda());
  return load_module(bench);
}

std::string wait_for_captured(const Bench& bench) {
  CUstream stream = bench.stream();
  CUgraph graph = nullptr;
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  const CUresult waited = bench.call.cuStreamSynchronize(stream);
  return bench.name(waited) + ", " + bench.name(bench.more.cuStreamEndCapture(stream, &graph));
}

std::string unjoined_branch(const Bench& bench) {
  CUstream stream = bench.stream(), branch = bench.stream();
  CUevent event = nullptr;
  bench.call.cuEventCreate(&event, kEventDisableTiming);
  const CUdeviceptr word = bench.zeros();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  bench.call.cuEventRecord(event, stream);
  bench.call.cuStreamWaitEvent(branch, event, 0);
  bench.more.cuStreamWriteValue32(branch, word, 1, 0);
  CUgraph graph = nullptr;
  return bench.name(bench.more.cuStreamEndCapture(stream, &graph));
}

/// A write, a wait for it, and a copy, in a graph that runs three times.
std::string replayed_graph(const Bench& bench) {
  CUstream stream = bench.stream();
  const CUdeviceptr words = bench.zeros();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  bench.more.cuStreamWriteValue32(stream, words, 77, 0);
  bench.more.cuStreamWaitValue32(stream, words, 77, kWaitEqual);
  bench.call.cuMemcpyAsync(words + 64, words, 4, stream);
  CUgraph graph = nullptr;
  const CUresult ended = bench.more.cuStreamEndCapture(stream, &graph);
  if (ended != kSuccess) return bench.name(ended);
  CUgraphExec run = nullptr;
  bench.more.cuGraphInstantiateWithFlags(&run, graph, 0);
  for (int i = 0; i < 3; ++i) bench.more.cuGraphLaunch(run, stream);
  bench.call.cuStreamSynchronize(stream);
  return std::to_string(bench.word_at(words + 64));
}

std::string list_in_capture(const Bench& bench) {
  CUstream stream = bench.stream();
  const CUdeviceptr memory = bench.zeros();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  cuda::CopyBatch copies;
  copies.add(memory, memory + 1024, 64);
  copies.add(memory + 64, memory + 2048, 64);
  const Status submitted = copies.submit(bench.client.cuda(), stream);
  CUgraph graph = nullptr;
  const CUresult ended = bench.more.cuStreamEndCapture(stream, &graph);
  return submitted.ok() ? bench.name(ended) : std::string(submitted.message());
}

std::string legacy_stream_beside_a_capture(const Bench& bench) {
  CUstream stream = bench.stream(0);
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  CUstreamCaptureStatus status = kCaptureNone;
  return bench.name(bench.call.cuStreamIsCapturing(nullptr, &status));
}

std::string attribute(const Bench& bench, CUdevice_attribute which) {
  const auto value = cuda::device_attribute(bench.client.cuda(), bench.device, which);
  return value.ok() ? std::to_string(value.value()) : std::string(value.status().message());
}

}  // namespace

std::vector<Fact> capture_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  return {
      {"cuMemAlloc while a stream is captured globally", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
       kSaid, allocate_while_captured},
      {"cuMemAlloc by a thread that is outside captures", "CUDA_SUCCESS", kSaid,
       allocate_outside_captures},
      {"cuModuleLoadData while a stream is captured globally",
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", kTaken, load_module_while_captured},
      {"cuModuleLoadData by a thread that is outside captures", "CUDA_SUCCESS", kTaken,
       load_module_outside_captures},
      {"a wait for a captured stream, then the end of the capture",
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", kSaid,
       wait_for_captured},
      {"a branch of a capture that was never joined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", kSaid,
       unjoined_branch},
      {"a graph of a write, a wait and a copy, three times", "77", kTaken, replayed_graph},
      {"a list of copies in a captured stream", "CUDA_SUCCESS", kSaid, list_in_capture},
      {"the legacy stream, a blocking one is captured", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", kSaid,
       legacy_stream_beside_a_capture},
  };
}

std::vector<Fact> attribute_facts() {
  struct Named {
    const char* name;
    CUdevice_attribute attribute;
  };
  constexpr std::array kAttributes = {
      Named{"attribute: copy engines", kDeviceCopyEngines},
      Named{"attribute: operations on words of 64 bits", kDevice64BitMemoryOps},
      Named{"attribute: waits for NOR", kDeviceWaitValueNor},
      Named{"attribute: flushes remote writes", kDeviceCanFlushRemoteWrites},
      Named{"attribute: descriptors of memory", kDeviceHandlePosixDescriptor},
      Named{"attribute: fabric handles of memory", kDeviceHandleFabric},
      Named{"attribute: multicast", kDeviceMulticast},
      Named{"attribute: registers host memory", kDeviceHostRegister},
      Named{"attribute: host addresses of registered memory work", kDeviceHostPointerForRegistered},
      Named{"attribute: pageable memory can be reached", kDevicePageableMemoryAccess},
  };
  std::vector<Fact> facts;
  for (const Named& named : kAttributes) {
    facts.push_back({named.name, "", Source::kAssumed,
                     [which = named.attribute](const Bench& b) { return attribute(b, which); }});
  }
  return facts;
}

}  // namespace softdev
