// Reduction operations of the user's own: tuttiRedOpCreatePreMulSum.
#include <cstring>
#include <string>

#include "src/api/caught.h"
#include "src/api/handle.h"

namespace tutti::api {
namespace {

// A thread that ends the communicator meanwhile waits for the visitor.
Status create(tuttiRedOp_t* op, const void* scalar, int type, int residence, tuttiComm_t comm) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  const auto refuse = [](const char* what) {
    return Status::invalid_argument(std::string("tuttiRedOpCreatePreMulSum: ") + what);
  };
  if (op == nullptr) return refuse("op is null");
  if (scalar == nullptr) return refuse("scalar is null");
  if (type < 0 || type >= types::kDataTypes) return refuse("unknown data type");
  if (!types::can_reduce(static_cast<types::DataType>(type), types::ReduceOp::kScaledSum)) {
    return refuse("a bool cannot be scaled");
  }
  ScaledSum operation;
  operation.type = static_cast<types::DataType>(type);
  if (residence == tuttiScalarDevice) {
    operation.scalar.memory = scalar;
  } else if (residence == tuttiScalarHostImmediate) {
    std::memcpy(operation.scalar.value.data(), scalar, types::size_of(operation.type));
  } else {
    return refuse("residence is neither tuttiScalarDevice nor tuttiScalarHostImmediate");
  }
  const int handle = comm->scaled_sums.add(operation);
  std::memcpy(op, &handle, sizeof handle);
  return {};
}

Status destroy(int op, tuttiComm_t comm) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (comm->scaled_sums.remove(op)) return {};
  return Status::invalid_argument("tuttiRedOpDestroy: " + std::to_string(op) +
                                  " is no operation that was made for this communicator");
}

}  // namespace
}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t type,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    using tutti::api::number_of;
    return tutti::api::report(
        comm, tutti::api::create(op, scalar, number_of(type), number_of(residence), comm));
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return tutti::api::caught(comm, [&] {
    return tutti::api::report(comm, tutti::api::destroy(tutti::api::number_of(op), comm));
  });
}

}  // extern "C"
