#include "tests/device/graphs.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/device/must.h"

namespace tutti::device_programs {

namespace driver = drivers::cuda;

namespace {

void must(driver::CUresult result, const char* what) {
  if (result == driver::kSuccess) return;
  std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(result));
  std::abort();
}

}  // namespace

Graph::Graph(const softdev::Client& client, driver::CUstream stream,
             const std::function<void()>& work)
    : client_(client) {
  must(client.more.cuStreamBeginCapture(stream, driver::kCaptureThreadLocal), "begin capture");
  work();
  driver::CUgraph graph = nullptr;
  must(client.more.cuStreamEndCapture(stream, &graph), "end capture");
  must(client.more.cuGraphInstantiateWithFlags(&instance_, graph, 0), "instantiate");
  must(client.more.cuGraphDestroy(graph), "destroy graph");
}

Graph::~Graph() { must(client_.more.cuGraphExecDestroy(instance_), "destroy instance"); }

void Graph::launch(driver::CUstream stream) const {
  must(client_.more.cuGraphLaunch(instance_, stream), "launch");
}

Pieces::Pieces(const driver::Cuda& cuda, int device, size_t bytes)
    : device_(must(driver::DeviceMemory::allocate(cuda, device, bytes))),
      pinned_(must(driver::PinnedMemory::allocate(cuda, bytes))) {}

size_t Pieces::take(size_t& used, size_t words) const {
  constexpr size_t kLine = 256;
  const size_t begin = used;
  used += (words * sizeof(uint64_t) + kLine - 1) / kLine * kLine;
  if (used <= pinned_.bytes()) return begin;
  std::fprintf(stderr, "the program's memory is used up\n");
  std::abort();
}

driver::CUdeviceptr Pieces::on_device(size_t words) {
  return device_.address() + take(device_used_, words);
}

uint64_t* Pieces::pinned(size_t words) {
  auto* const bytes = static_cast<std::byte*>(pinned_.data()) + take(pinned_used_, words);
  return reinterpret_cast<uint64_t*>(bytes);
}

namespace {

size_t all_shares(const CallSpec& call, int ranks) {
  size_t words = 0;
  for (int i = 0; i < ranks; ++i) words += call.share(i);
  return words;
}

/// Of what rank `from` sends to `to`.
size_t words_to(const CallSpec& call, int from, int to, int ranks) {
  return call.share((to - from + ranks) % ranks);
}

/// Where that begins in the input of `from`.
size_t place_to(const CallSpec& call, int from, int to, int ranks) {
  size_t place = 0;
  for (int before = 0; before < to; ++before) place += words_to(call, from, before, ranks);
  return place;
}

uint64_t word_of_shares(const CallSpec& call, uint64_t run, int rank, int ranks, size_t place) {
  for (int from = 0; from < ranks; ++from) {
    const bool gathers = call.kind == CallSpec::kAllGatherV;
    const size_t words = gathers ? call.share(from) : words_to(call, from, rank, ranks);
    const size_t before = gathers ? 0 : place_to(call, from, rank, ranks);
    if (place < words) return sent_word(call, run, from, before + place);
    place -= words;
  }
  return 0;
}

}  // namespace

size_t CallSpec::send_words(int ranks) const {
  if (kind == kAllToAllV) return all_shares(*this, ranks);
  const bool parts = kind == kReduceScatter || kind == kAllToAll;
  return parts ? count * static_cast<size_t>(ranks) : count;
}

size_t CallSpec::recv_words(int ranks) const {
  if (kind == kAllToAllV || kind == kAllGatherV) return all_shares(*this, ranks);
  const bool parts = kind == kAllGather || kind == kAllToAll;
  return parts ? count * static_cast<size_t>(ranks) : count;
}

uint64_t sent_word(const CallSpec& call, uint64_t run, int rank, size_t place) {
  uint64_t word = call.number * 0x9e3779b97f4a7c15 + run;
  word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9 + static_cast<uint64_t>(rank);
  word = (word ^ (word >> 32)) * 0x94d049bb133111eb + place;
  return word ^ (word >> 31);
}

uint64_t got_word(const CallSpec& call, uint64_t run, int rank, int ranks, size_t place) {
  const size_t me = static_cast<size_t>(rank) * call.count;
  switch (call.kind) {
    case CallSpec::kAllGather:
      return sent_word(call, run, static_cast<int>(place / call.count), place % call.count);
    case CallSpec::kBroadcast:
      return sent_word(call, run, call.root, place);
    case CallSpec::kAllToAll:
      return sent_word(call, run, static_cast<int>(place / call.count), me + place % call.count);
    case CallSpec::kRing:
      return sent_word(call, run, (rank + ranks - 1) % ranks, place);
    case CallSpec::kAllGatherV:
    case CallSpec::kAllToAllV:
      return word_of_shares(call, run, rank, ranks, place);
    default:
      break;
  }
  uint64_t sum = 0;
  const size_t at = call.kind == CallSpec::kReduceScatter ? me + place : place;
  for (int from = 0; from < ranks; ++from) sum += sent_word(call, run, from, at);
  return sum;
}

namespace {

tuttiResult_t put_ring(const CallSpec& call, const CallBuffers& at, tuttiComm_t comm,
                       tuttiStream_t stream) {
  int rank = 0, ranks = 0;
  tuttiCommUserRank(comm, &rank);
  tuttiCommCount(comm, &ranks);
  tuttiGroupStart();
  tuttiSend(reinterpret_cast<void*>(at.send), call.count, tuttiUint64, (rank + 1) % ranks, comm,
            stream);
  tuttiRecv(reinterpret_cast<void*>(at.recv), call.count, tuttiUint64, (rank + ranks - 1) % ranks,
            comm, stream);
  return tuttiGroupEnd();
}

tuttiResult_t put_shares(const CallSpec& call, const CallBuffers& at, tuttiComm_t comm,
                         tuttiStream_t stream) {
  int rank = 0, ranks = 0;
  tuttiCommUserRank(comm, &rank);
  tuttiCommCount(comm, &ranks);
  void* const send = reinterpret_cast<void*>(at.send);
  void* const recv = reinterpret_cast<void*>(at.recv);
  std::vector<size_t> sent, received;
  for (int peer = 0; peer < ranks; ++peer) {
    const bool gathers = call.kind == CallSpec::kAllGatherV;
    sent.push_back(words_to(call, rank, peer, ranks));
    received.push_back(gathers ? call.share(peer) : words_to(call, peer, rank, ranks));
  }
  if (call.kind == CallSpec::kAllGatherV) {
    return tuttiAllGatherV(send, call.share(rank), recv, received.data(), nullptr, tuttiUint64,
                           comm, stream);
  }
  return tuttiAllToAllV(send, sent.data(), nullptr, recv, received.data(), nullptr, tuttiUint64,
                        comm, stream);
}

}  // namespace

tuttiResult_t put_call(const CallSpec& call, const CallBuffers& at, tuttiComm_t comm,
                       tuttiStream_t stream) {
  void* const send = reinterpret_cast<void*>(at.send);
  void* const recv = reinterpret_cast<void*>(at.recv);
  switch (call.kind) {
    case CallSpec::kAllGather:
      return tuttiAllGather(send, recv, call.count, tuttiUint64, comm, stream);
    case CallSpec::kBroadcast:
      return tuttiBroadcast(send, recv, call.count, tuttiUint64, call.root, comm, stream);
    case CallSpec::kReduceScatter:
      return tuttiReduceScatter(send, recv, call.count, tuttiUint64, tuttiSum, comm, stream);
    case CallSpec::kAllToAll:
      return tuttiAllToAll(send, recv, call.count, tuttiUint64, comm, stream);
    case CallSpec::kRing:
      return put_ring(call, at, comm, stream);
    case CallSpec::kAllGatherV:
    case CallSpec::kAllToAllV:
      return put_shares(call, at, comm, stream);
    default:
      return tuttiAllReduce(send, recv, call.count, tuttiUint64, tuttiSum, comm, stream);
  }
}

PlacedCall place_call(Seat& seat, const CallSpec& spec, int ranks) {
  return {spec, seat.allocate(8 * (spec.send_words(ranks) + 1)),
          seat.allocate(8 * (spec.recv_words(ranks) + 1))};
}

std::string check_run(Seat& seat, const PlacedCall& call, const RunOfCall& which,
                      const std::function<bool()>& work) {
  const size_t sent = call.spec.send_words(which.ranks), got = call.spec.recv_words(which.ranks);
  Words words;
  for (size_t i = 0; i < sent; ++i) {
    words.push_back(sent_word(call.spec, which.run, which.rank, i));
  }
  seat.fill(call.send, words);
  seat.fill(call.recv, Words(got, 0));
  const std::string run =
      "run " + std::to_string(which.run) + ", kind " + std::to_string(call.spec.kind);
  if (!work()) return run + ": its stream failed";
  const Words all = seat.read(call.recv, got);
  for (size_t i = 0; i < got; ++i) {
    if (all[i] == got_word(call.spec, which.run, which.rank, which.ranks, i)) continue;
    return run + ": word " + std::to_string(i) + " is wrong";
  }
  return {};
}

}  // namespace tutti::device_programs
