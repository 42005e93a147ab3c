// The v-collectives of tutti.h: check every argument, then submit.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/api/call.h"
#include "src/api/caught.h"
#include "src/api/device.h"
#include "src/operation/collective_operation.h"

namespace tutti::api {
namespace {

using comm::CountView;
using comm::Request;
using schedule::Collective;

static_assert(sizeof(size_t) == sizeof(uint64_t), "count vectors are read as they are");

/// One side of a call: shares in a buffer.
struct Side {
  const char* name;  // "send", "recv"
  const void* buffer;
  std::span<const uint64_t> counts;
  const uint64_t* offsets;  // null: packed
};

struct AddressInterval {
  uintptr_t begin;
  uintptr_t end;
};

// The shares of a side that hold anything, in address order.
std::vector<AddressInterval> intervals_of(const Side& side, uint64_t element_bytes) {
  std::vector<AddressInterval> all;
  const auto base = reinterpret_cast<uintptr_t>(side.buffer);
  uint64_t packed = 0;
  for (size_t i = 0; i < side.counts.size(); ++i) {
    const uint64_t offset = side.offsets != nullptr ? side.offsets[i] : packed;
    packed += side.counts[i];
    if (side.counts[i] == 0) continue;
    const uintptr_t begin = base + offset * element_bytes;
    all.push_back({begin, begin + side.counts[i] * element_bytes});
  }
  std::ranges::sort(all, {}, &AddressInterval::begin);
  return all;
}

bool any_overlap(const std::vector<AddressInterval>& a, const std::vector<AddressInterval>& b) {
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

bool overlaps_itself(const std::vector<AddressInterval>& sorted) {
  return std::ranges::adjacent_find(sorted, [](const AddressInterval& a, const AddressInterval& b) {
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
  const std::vector<AddressInterval> written = intervals_of(recv, size);
  if (overlaps_itself(written)) return wrong(request, "two blocks of recv overlap");
  if (in_place || !any_overlap(intervals_of(send, size), written)) return {};
  return wrong(request, "send and recv overlap without being in place as tutti.h defines it");
}

Side side_of(const Request& request, bool output, uint32_t own) {
  const CountView& view = *request.counts;
  const uint64_t* counts = output ? view.recv_counts : view.send_counts;
  Side side{output ? "recv" : "send", output ? request.recv : request.send, {}, nullptr};
  if (counts == nullptr) {  // a buffer of one share
    side.counts = view.span(view.public_counts()).subspan(own, 1);
  } else {
    side.counts = view.span(counts);
    side.offsets = output ? view.recv_offsets : view.send_offsets;
  }
  return side;
}

Status check_sides(const Request& request, int rank) {
  const auto own = static_cast<uint32_t>(rank);
  const Side send = side_of(request, false, own), recv = side_of(request, true, own);
  uint64_t send_end = 0, recv_end = 0;
  if (Status status = check_side(request, send, send_end); !status.ok()) return status;
  if (Status status = check_side(request, recv, recv_end); !status.ok()) return status;
  const uint64_t size = types::size_of(request.type);
  const auto send_at = reinterpret_cast<uintptr_t>(send.buffer);
  const auto recv_at = reinterpret_cast<uintptr_t>(recv.buffer);
  const bool apart = send_at + send_end * size <= recv_at || recv_at + recv_end * size <= send_at;
  if (apart && recv.offsets == nullptr) return {};
  return check_overlaps(request, send, recv, comm::is_in_place(request, rank));
}

// The vectors that the collective has are there. Where it has one, tutti.h calls it `counts`.
Status check_vectors(const Request& request) {
  const schedule::Traits& traits = schedule::traits_of(request.collective);
  const CountView& view = *request.counts;
  const bool both = traits.input.parts && traits.output.parts;
  if (traits.input.parts && view.send_counts == nullptr) {
    return wrong(request, both ? "send_counts is null" : "counts is null");
  }
  if (traits.output.parts && view.recv_counts == nullptr) {
    return wrong(request, both ? "recv_counts is null" : "counts is null");
  }
  return {};
}

Status check_vector_call(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  if (Status status = check_operation(comm, request, stream); !status.ok()) return status;
  if (Status status = check_vectors(request); !status.ok()) return status;
  const int rank = comm->communicator->rank();
  if (request.collective == Collective::kAllGather &&
      request.count != request.counts->recv_counts[rank]) {
    return wrong(request, "send_count is " + std::to_string(request.count) + ", counts[" +
                              std::to_string(rank) + "] is " +
                              std::to_string(request.counts->recv_counts[rank]));
  }
  return check_sides(request, rank);
}

}  // namespace

tuttiResult_t run_vectors(tuttiComm_t comm, Request request, const tuttiRedOp_t& op,
                          tuttiStream_t stream, const Handle* handle) {
  if (comm == nullptr) return refuse(comm, check_handle(comm));
  const CallGuard guard(comm->in_flight);
  Status status = check_handle(comm);
  if (!status.ok()) return refuse(comm, status);
  CountView view = *request.counts;
  view.ranks = static_cast<uint32_t>(comm->communicator->ranks());
  request.counts = &view;
  comm::Extras extras;
  if (schedule::reduces(request.collective)) {
    const int number = number_of(op);
    request.op = static_cast<types::ReduceOp>(number);
    const bool own = number < 0 || number >= types::kReduceOps;
    if (own) status = take_scaled(comm, number, request, extras);
  }
  if (status.ok()) status = check_vector_call(comm, request, stream);
  if (!status.ok()) return refuse(comm, status);
  request.count = 0;
  // All ranks pass the same counts: if there is nothing to do, all know.
  if (!view.is_private() && comm::longest_of(view) == 0) return run_nothing(comm);
  const bool is_blocking = stream.kind == tuttiStreamBlocking && !may_have_device_memory();
  if (is_blocking && !in_group()) {
    return run_now(comm, [&] { return comm->communicator->collectives().run(request); });
  }
  return submit(comm, operation::CollectiveOperation(*comm->communicator, request), stream, handle);
}

}  // namespace tutti::api

using tutti::api::make_request;
using tutti::api::run_vectors;
using tutti::comm::CountView;
using tutti::schedule::Collective;

extern "C" {

tuttiResult_t tuttiAllGatherV(const void* send, size_t send_count, void* recv, const size_t* counts,
                              const size_t* offsets, tuttiDataType_t type, tuttiComm_t comm,
                              tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    const CountView view{.recv_counts = counts, .recv_offsets = offsets};
    auto request = make_request(Collective::kAllGather, send, recv, send_count, type);
    request.counts = &view;
    return run_vectors(comm, request, tuttiSum, stream);
  });
}

tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts,
                                  tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                  tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    const CountView view{.send_counts = counts};
    auto request = make_request(Collective::kReduceScatter, send, recv, 0, type);
    request.counts = &view;
    return run_vectors(comm, request, op, stream);
  });
}

tuttiResult_t tuttiAllToAllV(const void* send, const size_t* send_counts,
                             const size_t* send_offsets, void* recv, const size_t* recv_counts,
                             const size_t* recv_offsets, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    const CountView view{.send_counts = send_counts,
                         .send_offsets = send_offsets,
                         .recv_counts = recv_counts,
                         .recv_offsets = recv_offsets};
    auto request = make_request(Collective::kAllToAll, send, recv, 0, type);
    request.counts = &view;
    return run_vectors(comm, request, tuttiSum, stream);
  });
}

}  // extern "C"
