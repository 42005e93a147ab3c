#include "src/engines/cuda/nccl_calls.h"

#include <cstddef>
#include <span>
#include <string>

#include "src/engines/cuda/nccl_scaled_sum.h"

namespace tutti::engines::cuda {

using drivers::nccl::NcclComm;
using drivers::nccl::NcclFunctions;
using drivers::nccl::NcclOp;
using drivers::nccl::NcclResult;
using drivers::nccl::NcclType;
using schedule::Collective;
using types::DataType;
using types::ReduceOp;

namespace {

/// The arguments of a call.
struct NcclCall {
  const char* send = nullptr;
  char* recv = nullptr;
  size_t count = 0;
  size_t part_bytes = 0;                      // of `count` elements
  size_t element = 0;                         // bytes of one
  std::span<const exec::BufferPart> parts{};  // by rank, where each has a count of its own
  NcclType type = 0;
  NcclOp op = 0;
  int root = 0, rank = 0, ranks = 1;
  NcclComm comm = nullptr;
  void* stream = nullptr;
};

using Put = NcclResult (*)(const NcclFunctions&, const NcclCall&);

NcclResult all_reduce(const NcclFunctions& nccl, const NcclCall& c) {
  return nccl.ncclAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream);
}
NcclResult reduce_scatter(const NcclFunctions& nccl, const NcclCall& c) {
  return nccl.ncclReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream);
}
NcclResult all_gather(const NcclFunctions& nccl, const NcclCall& c) {
  return nccl.ncclAllGather(c.send, c.recv, c.count, c.type, c.comm, c.stream);
}
NcclResult broadcast(const NcclFunctions& nccl, const NcclCall& c) {
  return nccl.ncclBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream);
}
NcclResult reduce(const NcclFunctions& nccl, const NcclCall& c) {
  return nccl.ncclReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, c.stream);
}

NcclResult send(const NcclFunctions& nccl, const NcclCall& c, const char* data, int peer) {
  return nccl.ncclSend(data, c.count, c.type, peer, c.comm, c.stream);
}
NcclResult receive(const NcclFunctions& nccl, const NcclCall& c, char* data, int peer) {
  return nccl.ncclRecv(data, c.count, c.type, peer, c.comm, c.stream);
}

/// One group of calls, which ends whatever happened within. `put`: those of a peer, or with it.
template <class Messages>
NcclResult exchange(const NcclFunctions& nccl, const NcclCall& c, Messages put) {
  NcclResult first = nccl.ncclGroupStart();
  if (first != drivers::nccl::kSuccess) return first;
  for (int peer = 0; peer < c.ranks && first == drivers::nccl::kSuccess; ++peer) {
    first = put(peer, static_cast<size_t>(peer) * c.part_bytes);
  }
  const NcclResult ended = nccl.ncclGroupEnd();
  return first == drivers::nccl::kSuccess ? ended : first;
}

NcclResult all_to_all(const NcclFunctions& nccl, const NcclCall& c) {
  if (nccl.ncclAlltoAll != nullptr) {
    return nccl.ncclAlltoAll(c.send, c.recv, c.count, c.type, c.comm, c.stream);
  }
  return exchange(nccl, c, [&](int peer, size_t at) {
    const NcclResult sent = send(nccl, c, c.send + at, peer);
    return sent == drivers::nccl::kSuccess ? receive(nccl, c, c.recv + at, peer) : sent;
  });
}

NcclResult gather(const NcclFunctions& nccl, const NcclCall& c) {
  return exchange(nccl, c, [&](int peer, size_t at) {
    const NcclResult sent = peer == c.root ? send(nccl, c, c.send, peer) : drivers::nccl::kSuccess;
    const bool ends = sent != drivers::nccl::kSuccess || c.rank != c.root;
    return ends ? sent : receive(nccl, c, c.recv + at, peer);
  });
}

NcclResult scatter(const NcclFunctions& nccl, const NcclCall& c) {
  return exchange(nccl, c, [&](int peer, size_t at) {
    const NcclResult sent =
        c.rank == c.root ? send(nccl, c, c.send + at, peer) : drivers::nccl::kSuccess;
    const bool ends = sent != drivers::nccl::kSuccess || peer != c.root;
    return ends ? sent : receive(nccl, c, c.recv, peer);
  });
}

/// A part that is empty is so on all ranks, and nobody puts it there.
NcclResult all_gather_v(const NcclFunctions& nccl, const NcclCall& c) {
  return exchange(nccl, c, [&](int root, size_t) {
    const exec::BufferPart& part = c.parts[static_cast<size_t>(root)];
    if (part.bytes == 0) return drivers::nccl::kSuccess;
    return nccl.ncclBroadcast(c.send, c.recv + part.offset, part.bytes, c.type, root, c.comm,
                              c.stream);
  });
}

NcclResult reduce_scatter_v(const NcclFunctions& nccl, const NcclCall& c) {
  return exchange(nccl, c, [&](int root, size_t) {
    const exec::BufferPart& part = c.parts[static_cast<size_t>(root)];
    if (part.bytes == 0) return drivers::nccl::kSuccess;
    return nccl.ncclReduce(c.send + part.offset, c.recv, part.bytes / c.element, c.type, c.op, root,
                           c.comm, c.stream);
  });
}

/// By collective; null: NCCL has none.
constexpr Put kPuts[schedule::kCollectives] = {all_reduce, reduce_scatter, all_gather,
                                               broadcast,  reduce,         gather,
                                               scatter,    all_to_all,     nullptr};
/// The same with a count for each rank; null: each rank knows its own counts only.
constexpr Put kVectorPuts[schedule::kCollectives] = {
    nullptr, reduce_scatter_v, all_gather_v, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
static_assert(static_cast<int>(Collective::kBarrier) == schedule::kCollectives - 1);

bool is_of_a_byte(DataType type) { return types::is_float(type) && types::size_of(type) == 1; }

}  // namespace

Status object_to_nccl(const diagnosis::DescribedCall& call, const NcclPowers& powers) {
  const std::string name(schedule::name_of(call.collective));
  if (kPuts[static_cast<size_t>(call.collective)] == nullptr) {
    return Status::unsupported("NCCL has no " + name);
  }
  if (call.has_counts && kVectorPuts[static_cast<size_t>(call.collective)] == nullptr) {
    return Status::unsupported(
        "each rank knows its own counts only, which pairs of ranks compare as their streams move");
  }
  if (call.collective == Collective::kAllToAll && call.in_place) {
    return Status::unsupported("NCCL has no " + name + " in place");
  }
  if (!schedule::reduces(call.collective)) return {};
  if (call.deterministic) {
    return Status::unsupported("the order in which NCCL reduces is its own affair");
  }
  const bool knows = static_cast<int>(call.type) < powers.types;
  if (!knows || (is_of_a_byte(call.type) && !powers.folds_bytes)) {
    return Status::unsupported(std::string("NCCL reduces no ") + types::name_of(call.type) +
                               " here");
  }
  const bool has =
      static_cast<int>(call.op) < drivers::nccl::api::kNamedOps || call.op == ReduceOp::kScaledSum;
  if (has) return {};
  return Status::unsupported(std::string("NCCL has no operation ") + types::name_of(call.op));
}

NcclResult put_by_nccl(const NcclFunctions& functions, const exec::StreamedCall& call, int rank,
                       int ranks, NcclComm comm) {
  const diagnosis::DescribedCall& what = call.described;
  const bool reduces = schedule::reduces(what.collective);
  const size_t element = types::size_of(what.type);
  NcclCall put;
  put.send = static_cast<const char*>(call.call.send);
  put.recv = static_cast<char*>(call.call.recv);
  put.part_bytes = what.count * element;
  put.element = element;
  put.parts = call.parts;
  put.count = reduces ? what.count : put.part_bytes;
  put.type = static_cast<NcclType>(reduces ? what.type : DataType::kUint8);
  put.op = static_cast<NcclOp>(what.op);
  put.root = what.root;
  put.rank = rank;
  put.ranks = ranks;
  put.comm = comm;
  put.stream = call.where.stream;
  const auto& functions_of = what.has_counts ? kVectorPuts : kPuts;
  const Put function = functions_of[static_cast<size_t>(what.collective)];
  if (!call.factor) return function(functions, put);
  const NcclScaledSum scaled(functions, *call.factor, put.type, comm);
  put.op = scaled.op();
  return scaled.made() == drivers::nccl::kSuccess ? function(functions, put) : scaled.made();
}

}  // namespace tutti::engines::cuda
