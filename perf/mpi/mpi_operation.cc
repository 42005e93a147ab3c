#include "perf/mpi/mpi_operation.h"

#include <cstring>
#include <limits>

#include "perf/collectives/datatypes.h"
#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

MPI_Datatype mpi_type(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt8:
      return MPI_INT8_T;
    case tuttiUint8:
      return MPI_UINT8_T;
    case tuttiInt16:
      return MPI_INT16_T;
    case tuttiUint16:
      return MPI_UINT16_T;
    case tuttiBool:
      return MPI_C_BOOL;
    case tuttiInt32:
      return MPI_INT32_T;
    case tuttiUint32:
      return MPI_UINT32_T;
    case tuttiInt64:
      return MPI_INT64_T;
    case tuttiUint64:
      return MPI_UINT64_T;
    case tuttiFloat32:
      return MPI_FLOAT;
    case tuttiFloat64:
      return MPI_DOUBLE;
    default:
      throw PerfError(std::string("MPI has no type ") + data_type(type).name);
  }
}

MPI_Op logical_op(Logic logic) {
  if (logic == Logic::kXor) return MPI_LXOR;
  return logic == Logic::kAnd ? MPI_LAND : MPI_LOR;
}

MPI_Op mpi_op(tuttiDataType_t type, tuttiRedOp_t op) {
  if (type == tuttiBool) return logical_op(logic_of(data_type(type), op));
  switch (op) {
    case tuttiBitAnd:
      return MPI_BAND;
    case tuttiBitOr:
      return MPI_BOR;
    case tuttiBitXor:
      return MPI_BXOR;
    case tuttiSum:
      return MPI_SUM;
    case tuttiProd:
      return MPI_PROD;
    case tuttiMax:
      return MPI_MAX;
    case tuttiMin:
      return MPI_MIN;
    default:
      throw PerfError(std::string("MPI has no operation ") + reduce_op_name(op));
  }
}

int mpi_count(size_t count) {
  if (count > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw PerfError("MPI's counts end at 2^31 - 1 elements");
  }
  return static_cast<int>(count);
}

}  // namespace

MpiOperation::MpiOperation(const Operation& operation)
    : operation_(operation),
      count_(mpi_count(operation.count)),
      type_(mpi_type(operation.type)),
      op_(mpi_op(operation.type, operation.op)) {
  if (!traits_of(operation.collective).has(Trait::kUneven)) return;
  const auto fill = [&](const size_t* blocks, std::vector<int>& counts, std::vector<int>& offsets) {
    size_t offset = 0;
    for (int rank = 0; blocks != nullptr && rank < operation.ranks; offset += blocks[rank++]) {
      counts.push_back(mpi_count(blocks[rank]));
      offsets.push_back(mpi_count(offset));
    }
  };
  fill(operation.send_counts, send_counts_, send_offsets_);
  fill(operation.recv_counts, recv_counts_, recv_offsets_);
}

/// As enqueue_hypercube.
void MpiOperation::run_hypercube(const void* send, std::byte* recv) const {
  const size_t block_bytes = operation_.count * data_type(operation_.type).bytes;
  const auto block = [&](int index) { return recv + static_cast<size_t>(index) * block_bytes; };
  const int rank = operation_.rank;
  if (send != block(rank)) std::memcpy(block(rank), send, block_bytes);
  for (int blocks = 1; blocks < operation_.ranks; blocks *= 2) {
    const int mine = rank & ~(blocks - 1);
    const int count = mpi_count(operation_.count * static_cast<size_t>(blocks));
    MPI_Sendrecv(block(mine), count, type_, rank ^ blocks, 0, block(mine ^ blocks), count, type_,
                 rank ^ blocks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

void MpiOperation::run(const void* send, void* recv) const {
  switch (operation_.collective) {
    case Collective::kAllReduce:
      MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, count_, type_, op_, MPI_COMM_WORLD);
      return;
    case Collective::kAllGather:
      MPI_Allgather(send, count_, type_, recv, count_, type_, MPI_COMM_WORLD);
      return;
    case Collective::kReduceScatter:
      MPI_Reduce_scatter_block(send, recv, count_, type_, op_, MPI_COMM_WORLD);
      return;
    case Collective::kBroadcast:
      MPI_Bcast(recv, count_, type_, operation_.root, MPI_COMM_WORLD);
      return;
    case Collective::kReduce:
      MPI_Reduce(send, recv, count_, type_, op_, operation_.root, MPI_COMM_WORLD);
      return;
    case Collective::kGather:
      MPI_Gather(send, count_, type_, recv, count_, type_, operation_.root, MPI_COMM_WORLD);
      return;
    case Collective::kScatter:
      MPI_Scatter(send, count_, type_, recv, count_, type_, operation_.root, MPI_COMM_WORLD);
      return;
    case Collective::kAllToAll:
      MPI_Alltoall(send, count_, type_, recv, count_, type_, MPI_COMM_WORLD);
      return;
    case Collective::kAllGatherV:
      MPI_Allgatherv(send, recv_counts_[static_cast<size_t>(operation_.rank)], type_, recv,
                     recv_counts_.data(), recv_offsets_.data(), type_, MPI_COMM_WORLD);
      return;
    case Collective::kReduceScatterV:
      MPI_Reduce_scatter(send, recv, send_counts_.data(), type_, op_, MPI_COMM_WORLD);
      return;
    case Collective::kAllToAllV:
      MPI_Alltoallv(send, send_counts_.data(), send_offsets_.data(), type_, recv,
                    recv_counts_.data(), recv_offsets_.data(), type_, MPI_COMM_WORLD);
      return;
    case Collective::kBarrier:
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    case Collective::kSendRecv: {
      const int next = (operation_.rank + 1) % operation_.ranks;
      const int previous = (operation_.rank + operation_.ranks - 1) % operation_.ranks;
      MPI_Sendrecv(send, count_, type_, next, 0, recv, count_, type_, previous, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      return;
    }
    case Collective::kHypercube:
      run_hypercube(send, static_cast<std::byte*>(recv));
      return;
  }
}

}  // namespace tutti::perf
