// The v-collectives of tutti.h: check every argument, then submit.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/api/submit.h"

namespace tutti::api {
namespace {

using comm::CountView;
using comm::Request;
using schedule::Collective;

static_assert(sizeof(size_t) == sizeof(uint64_t), "count vectors are read as they are");

const uint64_t* entries(const size_t* vector) { return vector; }

Status wrong(const Request& request, const std::string& what) {
  return Status::invalid_argument(std::string(comm::name_of(request)) + ": " + what);
}

/// One side of a call: shares in a buffer.
struct Side {
  const char* name;  // "send", "recv"
  const void* buffer;
  std::span<const uint64_t> counts;
  const uint64_t* offsets;  // null: packed
};

struct Interval {
  uintptr_t begin;
  uintptr_t end;
};

// The shares of a side that hold anything, in address order.
std::vector<Interval> intervals_of(const Side& side, uint64_t element_bytes) {
  std::vector<Interval> all;
  const auto base = reinterpret_cast<uintptr_t>(side.buffer);
  uint64_t packed = 0;
  for (size_t i = 0; i < side.counts.size(); ++i) {
    const uint64_t offset = side.offsets != nullptr ? side.offsets[i] : packed;
    packed += side.counts[i];
    if (side.counts[i] == 0) continue;
    const uintptr_t begin = base + offset * element_bytes;
    all.push_back({begin, begin + side.counts[i] * element_bytes});
  }
  std::ranges::sort(all, {}, &Interval::begin);
  return all;
}

bool any_overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i].begin < b[k].end && b[k].begin < a[i].end) return true;
    if (a[i].end < b[k].end) {
      ++i;
    } else {
      ++k;
    }
  }
  return false;
}

bool overlaps_itself(const std::vector<Interval>& sorted) {
  return std::ranges::adjacent_find(sorted, [](const Interval& a, const Interval& b) {
           return a.end > b.begin;
         }) != sorted.end();
}

// No share reaches beyond what memory can hold, and a buffer with elements is there. `end`: of the
// last share, in elements.
Status check_side(const Request& request, const Side& side, uint64_t& end) {
  const uint64_t most = ~uint64_t{0} / 4 / types::size_of(request.type);
  const std::string name = side.name;
  uint64_t total = 0;
  end = 0;
  for (size_t i = 0; i < side.counts.size(); ++i) {
    const uint64_t count = side.counts[i];
    const uint64_t offset = side.offsets != nullptr ? side.offsets[i] : total;
    if (count > most || offset > most - count || total > most - count) {
      return wrong(request,
                   "the " + name + " count or offset of rank " + std::to_string(i) + " overflows");
    }
    total += count;
    if (count > 0) end = std::max(end, offset + count);
  }
  if (total > 0 && side.buffer == nullptr) return wrong(request, name + " is null");
  return {};
}

// Shares that are written keep apart, from one another and from what is read.
Status check_overlaps(const Request& request, const Side& send, const Side& recv, bool in_place) {
  const uint64_t size = types::size_of(request.type);
  const std::vector<Interval> written = intervals_of(recv, size);
  if (overlaps_itself(written)) return wrong(request, "two blocks of recv overlap");
  if (in_place || !any_overlap(intervals_of(send, size), written)) return {};
  return wrong(request, "send and recv overlap without being in place as tutti.h defines it");
}

Status check(const Request& request, const Side& send, const Side& recv, bool in_place) {
  uint64_t send_end = 0, recv_end = 0;
  if (Status status = check_side(request, send, send_end); !status.ok()) return status;
  if (Status status = check_side(request, recv, recv_end); !status.ok()) return status;
  const uint64_t size = types::size_of(request.type);
  const auto send_at = reinterpret_cast<uintptr_t>(send.buffer);
  const auto recv_at = reinterpret_cast<uintptr_t>(recv.buffer);
  const bool apart = send_at + send_end * size <= recv_at || recv_at + recv_end * size <= send_at;
  if (apart && recv.offsets == nullptr) return {};
  return check_overlaps(request, send, recv, in_place);
}

Status check_common(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (Status status = check_stream(stream); !status.ok()) return status;
  if (static_cast<int>(request.type) >= types::kDataTypes) {
    return wrong(request, "unknown data type");
  }
  if (static_cast<int>(request.op) >= types::kReduceOps) {
    return wrong(request, "unknown reduction operation");
  }
  return {};
}

std::span<const uint64_t> shares(tuttiComm_t comm, const uint64_t* counts) {
  return {counts, static_cast<size_t>(comm->communicator->ranks())};
}

// All ranks pass the same counts: if there is nothing to do, all know.
tuttiResult_t run(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  const CountView& view = *request.counts;
  if (!view.is_private() && comm::longest_of(view) == 0) return tuttiSuccess;
  return submit(comm, request, stream);
}

Request make(Collective collective, const void* send, void* recv, const tuttiDataType_t& type,
             const CountView& counts) {
  Request request;
  request.collective = collective;
  request.type = narrow<types::DataType>(type);
  request.send = send;
  request.recv = recv;
  request.counts = &counts;
  return request;
}

}  // namespace

tuttiResult_t all_gather_v(Request request, size_t send_count, tuttiComm_t comm,
                           tuttiStream_t stream, CountView& view) {
  Status status = check_common(comm, request, stream);
  if (status.ok() && view.recv_counts == nullptr) status = wrong(request, "counts is null");
  if (!status.ok()) return refuse(comm, status);
  const auto all = shares(comm, view.recv_counts);
  const auto own = static_cast<uint32_t>(comm->communicator->rank());
  view.ranks = static_cast<uint32_t>(all.size());
  const Side send = {"send", request.send, all.subspan(own, 1), nullptr};
  const Side recv = {"recv", request.recv, all, view.recv_offsets};
  if (send_count != all[own]) {
    status = wrong(request, "send_count is " + std::to_string(send_count) + ", counts[" +
                                std::to_string(own) + "] is " + std::to_string(all[own]));
    return refuse(comm, status);
  }
  const uint64_t part = comm::offset_of(view, view.recv_counts, view.recv_offsets, own);
  const auto at = reinterpret_cast<uintptr_t>(request.recv) + part * types::size_of(request.type);
  status = check(request, send, recv, reinterpret_cast<uintptr_t>(request.send) == at);
  return status.ok() ? run(comm, request, stream) : refuse(comm, status);
}

tuttiResult_t reduce_scatter_v(Request request, tuttiComm_t comm, tuttiStream_t stream,
                               CountView& view) {
  Status status = check_common(comm, request, stream);
  if (status.ok() && view.send_counts == nullptr) status = wrong(request, "counts is null");
  if (!status.ok()) return refuse(comm, status);
  const auto all = shares(comm, view.send_counts);
  const auto own = static_cast<uint32_t>(comm->communicator->rank());
  view.ranks = static_cast<uint32_t>(all.size());
  const Side send = {"send", request.send, all, nullptr};
  const Side recv = {"recv", request.recv, all.subspan(own, 1), nullptr};
  const uint64_t part = comm::offset_of(view, view.send_counts, nullptr, own);
  const auto at = reinterpret_cast<uintptr_t>(request.send) + part * types::size_of(request.type);
  status = check(request, send, recv, reinterpret_cast<uintptr_t>(request.recv) == at);
  return status.ok() ? run(comm, request, stream) : refuse(comm, status);
}

tuttiResult_t all_to_all_v(const Request& request, tuttiComm_t comm, tuttiStream_t stream,
                           CountView& view) {
  Status status = check_common(comm, request, stream);
  if (status.ok() && view.send_counts == nullptr) status = wrong(request, "send_counts is null");
  if (status.ok() && view.recv_counts == nullptr) status = wrong(request, "recv_counts is null");
  if (!status.ok()) return refuse(comm, status);
  const Side send = {"send", request.send, shares(comm, view.send_counts), view.send_offsets};
  const Side recv = {"recv", request.recv, shares(comm, view.recv_counts), view.recv_offsets};
  view.ranks = static_cast<uint32_t>(send.counts.size());
  const auto equal = [&](const uint64_t* a, const uint64_t* b) {
    return a == b || (a != nullptr && b != nullptr && std::equal(a, a + view.ranks, b));
  };
  const bool in_place = request.send == request.recv && equal(view.send_counts, view.recv_counts) &&
                        equal(view.send_offsets, view.recv_offsets);
  status = check(request, send, recv, in_place);
  return status.ok() ? run(comm, request, stream) : refuse(comm, status);
}

}  // namespace tutti::api

using tutti::api::entries;
using tutti::api::make;
using tutti::comm::CountView;
using tutti::schedule::Collective;

extern "C" {

tuttiResult_t tuttiAllGatherV(const void* send, size_t send_count, void* recv, const size_t* counts,
                              const size_t* offsets, tuttiDataType_t type, tuttiComm_t comm,
                              tuttiStream_t stream) {
  CountView view{.recv_counts = entries(counts), .recv_offsets = entries(offsets)};
  const auto request = make(Collective::kAllGather, send, recv, type, view);
  return tutti::api::all_gather_v(request, send_count, comm, stream, view);
}

tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts,
                                  tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                  tuttiStream_t stream) {
  CountView view{.send_counts = entries(counts)};
  auto request = make(Collective::kReduceScatter, send, recv, type, view);
  request.op = tutti::api::narrow<tutti::types::ReduceOp>(op);
  return tutti::api::reduce_scatter_v(request, comm, stream, view);
}

tuttiResult_t tuttiAllToAllV(const void* send, const size_t* send_counts,
                             const size_t* send_offsets, void* recv, const size_t* recv_counts,
                             const size_t* recv_offsets, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  CountView view{.send_counts = entries(send_counts),
                 .send_offsets = entries(send_offsets),
                 .recv_counts = entries(recv_counts),
                 .recv_offsets = entries(recv_offsets)};
  const auto request = make(Collective::kAllToAll, send, recv, type, view);
  return tutti::api::all_to_all_v(request, comm, stream, view);
}

}  // extern "C"
