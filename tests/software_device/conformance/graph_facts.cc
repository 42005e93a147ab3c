// Facts about graphs that hold what captured calls of Tutti are made of: host functions, operations
// on words, events that are recorded and waited for whenever a graph runs, objects that a graph
// keeps.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

using std::chrono::milliseconds;

CUgraphExec captured(const Bench& bench, const std::function<void(CUstream)>& work) {
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  work(stream);
  CUgraph graph = nullptr;
  CUgraphExec run = nullptr;
  if (bench.more.cuStreamEndCapture(stream, &graph) != kSuccess) return nullptr;
  bench.more.cuGraphInstantiateWithFlags(&run, graph, 0);
  bench.more.cuGraphDestroy(graph);
  return run;
}

CUevent event(const Bench& bench) {
  CUevent made = nullptr;
  bench.call.cuEventCreate(&made, kEventDisableTiming);
  return made;
}

/// Whether the stream has ended only after somebody has written the word that something waits for.
std::string waits_for(const Bench& bench, CUstream stream, CUdeviceptr word) {
  std::this_thread::sleep_for(milliseconds(200));
  const bool early = bench.call.cuStreamQuery(stream) != kErrorNotReady;
  bench.more.cuStreamWriteValue32(bench.stream(), word, 1, 0);
  const std::string end = bench.end_of(stream);
  return early ? "does not wait" : end == "CUDA_SUCCESS" ? "waits" : end;
}

std::string words_of_64_bits(const Bench& bench) {
  const CUdeviceptr words = bench.zeros();
  CUgraphExec run = captured(bench, [&](CUstream stream) {
    cuda::MemoryOps operations;
    operations.write_64(words, uint64_t{1} << 40);
    operations.wait_at_least_64(words, 1);
    operations.write_64(words + 64, 9);
    operations.write_64(words, 0);
    (void)operations.submit(bench.client.cuda(), stream);
  });
  if (run == nullptr) return "no graph";
  CUstream stream = bench.stream();
  for (int i = 0; i < 3; ++i) bench.more.cuGraphLaunch(run, stream);
  const std::string end = bench.end_of(stream);
  return end + ", " + std::to_string(bench.word_at(words)) + ", " +
         std::to_string(bench.word_at(words + 64));
}

std::string host_function(const Bench& bench) {
  static std::atomic<int> calls{0};
  CUgraphExec run = captured(bench, [&](CUstream stream) {
    bench.call.cuLaunchHostFunc(
        stream, [](void*) { ++calls; }, nullptr);
  });
  CUstream stream = bench.stream();
  for (int i = 0; i < 3; ++i) bench.more.cuGraphLaunch(run, stream);
  const std::string end = bench.end_of(stream);
  return end + ", " + std::to_string(calls.load());
}

std::string graph_behind_a_record(const Bench& bench) {
  CUevent outside = event(bench);
  const CUdeviceptr words = bench.zeros();
  CUgraphExec run = captured(bench, [&](CUstream stream) {
    bench.call.cuStreamWaitEvent(stream, outside, kEventWaitExternal);
    bench.more.cuStreamWriteValue32(stream, words + 64, 1, 0);
  });
  CUstream held = bench.stream(), stream = bench.stream();
  bench.more.cuStreamWaitValue32(held, words, 1, kWaitAtLeast);
  bench.call.cuEventRecord(outside, held);
  bench.more.cuGraphLaunch(run, stream);
  return waits_for(bench, stream, words);
}

/// `twice`: the graph records it before the wait, too.
std::string stream_behind_a_graph(const Bench& bench, bool twice) {
  CUevent outside = event(bench);
  const CUdeviceptr words = bench.zeros();
  CUgraphExec run = captured(bench, [&](CUstream stream) {
    if (twice) bench.call.cuEventRecordWithFlags(outside, stream, kEventRecordExternal);
    bench.more.cuStreamWaitValue32(stream, words, 1, kWaitAtLeast);
    bench.call.cuEventRecordWithFlags(outside, stream, kEventRecordExternal);
  });
  CUstream stream = bench.stream();
  bench.more.cuGraphLaunch(run, bench.stream());
  bench.call.cuStreamWaitEvent(stream, outside, 0);
  bench.more.cuStreamWriteValue32(stream, words + 64, 1, 0);
  return waits_for(bench, stream, words);
}

/// The first one waits for the word, the second one for the first one's record.
std::string graph_behind_a_graph(const Bench& bench) {
  CUevent outside = event(bench);
  const CUdeviceptr words = bench.zeros();
  const auto graph = [&](CUdeviceptr awaited) {
    return captured(bench, [&, awaited](CUstream stream) {
      bench.call.cuStreamWaitEvent(stream, outside, kEventWaitExternal);
      if (awaited != 0) bench.more.cuStreamWaitValue32(stream, awaited, 1, kWaitAtLeast);
      bench.call.cuEventRecordWithFlags(outside, stream, kEventRecordExternal);
    });
  };
  CUgraphExec first = graph(words), second = graph(0);
  CUstream stream = bench.stream();
  bench.more.cuGraphLaunch(first, bench.stream());
  bench.more.cuGraphLaunch(second, stream);
  return waits_for(bench, stream, words);
}

std::string launches_of_one_graph(const Bench& bench) {
  const CUdeviceptr words = bench.zeros();
  CUgraphExec run = captured(bench, [&](CUstream stream) {
    bench.more.cuStreamWaitValue32(stream, words, 1, kWaitAtLeast);
  });
  CUstream stream = bench.stream();
  bench.more.cuGraphLaunch(run, bench.stream());
  bench.more.cuGraphLaunch(run, stream);
  return waits_for(bench, stream, words);
}

std::string external_outside_captures(const Bench& bench) {
  CUstream stream = bench.stream();
  CUevent outside = event(bench);
  return bench.name(bench.call.cuStreamWaitEvent(stream, outside, kEventWaitExternal)) + ", " +
         bench.name(bench.call.cuEventRecordWithFlags(outside, stream, kEventRecordExternal));
}

std::string capture_info(const Bench& bench) {
  CUstream stream = bench.stream();
  const auto id = [&] {
    CUstreamCaptureStatus status = kCaptureNone;
    uint64_t number = 0;
    CUgraph graph = nullptr, ended = nullptr;
    bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
    bench.call.cuStreamGetCaptureInfo(stream, &status, &number, &graph, nullptr, nullptr);
    bench.more.cuStreamEndCapture(stream, &ended);
    return status == kCaptureActive && graph == ended ? number : 0;
  };
  const uint64_t first = id(), second = id();
  if (first == 0 || second == 0) return "not the graph that ends";
  return first == second ? "the same id" : "the graph, other ids";
}

/// An object that a captured graph keeps, and whether it is gone.
std::atomic<bool> gone{false};

std::string is_gone(bool wanted) {
  for (int i = 0; i < 200 && gone != wanted; ++i) std::this_thread::sleep_for(milliseconds(5));
  return gone ? "gone" : "there";
}

std::string kept_object(const Bench& bench) {
  CUstream stream = bench.stream();
  const CUdeviceptr words = bench.zeros();
  CUstreamCaptureStatus status = kCaptureNone;
  CUgraph graph = nullptr;
  CUgraphExec run = nullptr;
  CUuserObject object = nullptr;
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  bench.call.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr);
  bench.call.cuUserObjectCreate(
      &object, nullptr, [](void*) { gone = true; }, 1, kUserObjectNoDestructorSync);
  const CUresult kept = bench.call.cuGraphRetainUserObject(graph, object, 1, kGraphUserObjectMove);
  bench.more.cuStreamWriteValue32(stream, words, 1, 0);
  const CUresult ended = bench.more.cuStreamEndCapture(stream, &graph);
  bench.more.cuGraphInstantiateWithFlags(&run, graph, 0);
  bench.more.cuGraphDestroy(graph);
  std::this_thread::sleep_for(milliseconds(100));
  const std::string before = is_gone(false);
  bench.more.cuGraphExecDestroy(run);
  return bench.name(kept) + ", " + bench.name(ended) + ", " + before + ", " + is_gone(true);
}

/// The graph's end, when its run has not ended.
std::string object_of_a_running_graph(const Bench& bench) {
  const CUdeviceptr words = bench.zeros();
  CUstream stream = bench.stream();
  CUstreamCaptureStatus status = kCaptureNone;
  CUgraph graph = nullptr;
  CUuserObject object = nullptr;
  bench.call.cuUserObjectCreate(
      &object, nullptr, [](void*) { gone = true; }, 1, kUserObjectNoDestructorSync);
  CUgraphExec run = captured(bench, [&](CUstream captured_stream) {
    bench.call.cuStreamGetCaptureInfo(captured_stream, &status, nullptr, &graph, nullptr, nullptr);
    bench.call.cuGraphRetainUserObject(graph, object, 1, kGraphUserObjectMove);
    bench.more.cuStreamWaitValue32(captured_stream, words, 1, kWaitAtLeast);
  });
  bench.more.cuGraphLaunch(run, stream);
  const std::string end = bench.comes_back([&bench, run] { bench.more.cuGraphExecDestroy(run); });
  std::this_thread::sleep_for(milliseconds(100));
  const std::string before = is_gone(false);
  bench.more.cuStreamWriteValue32(bench.stream(), words, 1, 0);
  return end + ", " + before + ", " + bench.end_of(stream) + ", " + is_gone(true);
}

/// Runs of an instance that another graph, with the same nodes, has taken the place of.
std::string updated_instance(const Bench& bench) {
  const CUdeviceptr words = bench.zeros();
  CUgraphExec run = captured(
      bench, [&](CUstream stream) { bench.more.cuStreamWriteValue32(stream, words, 5, 0); });
  CUstream stream = bench.stream();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  bench.more.cuStreamWriteValue32(stream, words, 6, 0);
  CUgraph other = nullptr;
  bench.more.cuStreamEndCapture(stream, &other);
  CUgraphExecUpdateResultInfo info{};
  const CUresult updated = bench.more.cuGraphExecUpdate(run, other, &info);
  bench.more.cuGraphDestroy(other);
  if (updated != kSuccess) return bench.name(updated);
  bench.more.cuGraphLaunch(run, stream);
  return bench.end_of(stream) + ", " + std::to_string(bench.word_at(words));
}

}  // namespace

std::vector<Fact> graph_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  return {
      {"a graph of operations on words of 64 bits, three times", "CUDA_SUCCESS, 0, 9", kTaken,
       words_of_64_bits},
      {"a host function in a graph, three launches", "CUDA_SUCCESS, 3", kSaid, host_function},
      {"a graph that waits for an event outside, which was recorded before its launch", "waits",
       kTaken, graph_behind_a_record},
      {"a stream that waits for an event that a launched graph records", "waits", kTaken,
       [](const Bench& b) { return stream_behind_a_graph(b, false); }},
      {"the same, and the graph records it twice", "waits", kTaken,
       [](const Bench& b) { return stream_behind_a_graph(b, true); }},
      {"a graph that waits for an event that another launched graph records", "waits", kTaken,
       graph_behind_a_graph},
      {"an instance that cuGraphExecUpdate gave another graph", "CUDA_SUCCESS, 6", kTaken,
       updated_instance},
      {"two launches of one graph in two streams", "waits", kSaid, launches_of_one_graph},
      {"a wait for an event outside, and a record of one, in no capture",
       "CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE", kTaken, external_outside_captures},
      {"what is known of a captured stream", "the graph, other ids", kSaid, capture_info},
      {"an object that a graph keeps: the call, the capture's end, behind the graph's end, behind "
       "that of its instance",
       "CUDA_SUCCESS, CUDA_SUCCESS, there, gone", kSaid, kept_object},
      {"an instance is destroyed while it runs: the call, its object, the end, its object",
       "returns, there, CUDA_SUCCESS, gone", kTaken, object_of_a_running_graph},
  };
}

}  // namespace softdev
