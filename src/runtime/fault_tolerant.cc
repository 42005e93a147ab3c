#include "tutti/runtime/fault_tolerant.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "src/runtime/data_types.h"
#include "src/runtime/fingerprint.h"
#include "src/runtime/halves.h"
#include "src/runtime/index.h"
#include "src/runtime/loss.h"
#include "src/runtime/refuse.h"
#include "src/runtime/step_memory.h"

namespace tutti::runtime {
namespace {

template <class Number>
void scale_all(void* values, int64_t count, int64_t times, int64_t divisor) {
  auto* elements = static_cast<Number*>(values);
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = static_cast<Number>(elements[i] * static_cast<Number>(times) /
                                      static_cast<Number>(divisor));
  }
}

void scale_halves(void* values, int64_t count, tuttiDataType_t type, int64_t times,
                  int64_t divisor) {
  constexpr int64_t kPiece = 1024;
  std::vector<float> piece(at(std::min(count, kPiece)));
  const Halves halves(type);
  for (int64_t from = 0; from < count; from += kPiece) {
    auto* place = static_cast<std::byte*>(values) + from * bytes_of(type);
    const std::span<float> floats(piece.data(), at(std::min(kPiece, count - from)));
    halves.read(place, floats);
    scale_all<float>(floats.data(), std::ssize(floats), times, divisor);
    halves.write(floats, place);
  }
}

bool is_integer(tuttiDataType_t type) {
  const bool is_float =
      type == tuttiFloat16 || type == tuttiBfloat16 || type == tuttiFloat32 || type == tuttiFloat64;
  return !is_float && type != tuttiBool;
}

/// Multiplies halves by times / divisor; divides integers, rounded toward zero.
void scale(void* values, int64_t count, tuttiDataType_t type, int64_t times, int64_t divisor) {
  switch (type) {
    case tuttiInt8:
      return scale_all<int8_t>(values, count, 1, divisor);
    case tuttiUint8:
      return scale_all<uint8_t>(values, count, 1, divisor);
    case tuttiInt16:
      return scale_all<int16_t>(values, count, 1, divisor);
    case tuttiUint16:
      return scale_all<uint16_t>(values, count, 1, divisor);
    case tuttiInt32:
      return scale_all<int32_t>(values, count, 1, divisor);
    case tuttiUint32:
      return scale_all<uint32_t>(values, count, 1, divisor);
    case tuttiInt64:
      return scale_all<int64_t>(values, count, 1, divisor);
    case tuttiUint64:
      return scale_all<uint64_t>(values, count, 1, divisor);
    default:
      return scale_halves(values, count, type, times, divisor);
  }
}

/// Where some members are not counted, its averages are sums of inputs that were divided before.
bool is_scaled_before(tuttiDataType_t type) { return type == tuttiFloat32 || type == tuttiFloat64; }

/// The sum of inputs, each divided by `divisor`.
class DividedSum {
 public:
  DividedSum(tuttiComm_t comm, tuttiDataType_t type, int64_t divisor) : comm_(comm) {
    double wide = 1 / static_cast<double>(divisor);
    auto narrow = static_cast<float>(wide);
    void* const factor = type == tuttiFloat64 ? static_cast<void*>(&wide) : &narrow;
    result_ = tuttiRedOpCreatePreMulSum(&op_, factor, type, tuttiScalarHostImmediate, comm);
  }
  DividedSum(const DividedSum&) = delete;
  DividedSum& operator=(const DividedSum&) = delete;
  /// A call that uses it may be under way.
  ~DividedSum() {
    if (result_ == tuttiSuccess) tuttiRedOpDestroy(op_, comm_);
  }
  tuttiResult_t result() const { return result_; }
  tuttiRedOp_t op() const { return op_; }

 private:
  const tuttiComm_t comm_;
  tuttiRedOp_t op_ = tuttiSum;
  tuttiResult_t result_ = tuttiSuccess;
};

bool all_counted(const std::vector<StepMember>& members) {
  return std::all_of(members.begin(), members.end(),
                     [](const StepMember& member) { return member.counted; });
}

}  // namespace

/// A call of the present step, with what it takes to run it again.
struct FaultTolerantAllReduce::KeptCall {
  const void* send = nullptr;
  void* recv = nullptr;
  int64_t count = 0;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  tuttiRequest_t request = nullptr;
  bool failed = false;
  StepMemory::Piece copy;   // of the input, if it is the result's memory
  int64_t copy_bytes = 0;   // that `copy` has room for
  StepMemory::Piece zeros;  // the input of a rank that is not counted

  int64_t bytes() const { return count * bytes_of(type); }
  bool in_place() const { return send == recv; }
};

FaultTolerantAllReduce::FaultTolerantAllReduce(tuttiComm_t comm, FaultTolerantSpec spec)
    : group_(comm, spec.group),
      spec_(std::move(spec)),
      memory_(StepMemory::open(comm, spec_.stream)) {}

FaultTolerantAllReduce::~FaultTolerantAllReduce() {
  for (size_t i = 0; i < open_; ++i) {
    if (calls_[i]->request != nullptr) tuttiRequestWait(calls_[i]->request);
  }
}

void FaultTolerantAllReduce::all_reduce(const void* send, void* recv, int64_t count,
                                        tuttiDataType_t type, tuttiRedOp_t op) {
  require(count >= 0, count, " elements; give 0 or more");
  require(op == tuttiSum || op == tuttiAvg, "operation ", static_cast<int>(op),
          " over replicas; only tuttiSum and tuttiAvg have a meaning for zeros of newcomers");
  const bool has_average = type != tuttiBool && type != tuttiFloat8e4m3 && type != tuttiFloat8e5m2;
  require(has_average || op == tuttiSum,
          "bools and floats of 8 bits have no average here; use tuttiSum");
  const int64_t bytes = checked_product(count, bytes_of(type), "the bytes of a call");
  require(count == 0 || (send != nullptr && recv != nullptr), "a buffer is null");
  const auto* from = static_cast<const std::byte*>(send);
  const auto* to = static_cast<const std::byte*>(recv);
  require(from == to || from + bytes <= to || to + bytes <= from,
          "input and result overlap; they may be the same memory, or apart");
  if (open_ == calls_.size()) calls_.push_back(std::make_unique<KeptCall>());
  KeptCall& call = *calls_[open_];
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  call.op = op;
  keep_input(call);
  ++open_;
  begin(call);
}

void FaultTolerantAllReduce::keep_input(KeptCall& call) {
  try {
    if (!group_.counted()) {
      call.zeros = memory_->zeros(call.bytes());
    } else if (call.in_place()) {
      const int64_t more = call.bytes() - call.copy_bytes;
      if (more > 0) {
        if (kept_.value + more > spec_.most_kept.value) throw std::bad_alloc();
        call.copy = memory_->allocate(call.bytes());
        call.copy_bytes = call.bytes();
        kept_ += Bytes(more);
      }
      memory_->copy(call.copy.get(), call.send, call.bytes());
    }
  } catch (const std::bad_alloc&) {
    infeasible("there is no room for ", call.bytes(), " bytes of a call beside the ", kept_.value,
               " that are kept, of at most ", spec_.most_kept.value,
               "; pass another buffer for the result");
  }
}

const void* FaultTolerantAllReduce::input_of(const KeptCall& call) const {
  if (!group_.counted()) return call.zeros.get();
  return call.in_place() ? call.copy.get() : call.send;
}

// The library divides by the number of all members. Where some are not counted, wide floats are
// divided before, sums of integers behind the commit, and averages of halves multiplied by what is
// missing.
void FaultTolerantAllReduce::begin(KeptCall& call) {
  const bool is_plain = call.op != tuttiAvg || all_counted(group_.members());
  if (is_plain) return begin(call, call.op);
  if (!is_scaled_before(call.type)) {
    return begin(call, is_integer(call.type) ? tuttiSum : tuttiAvg);
  }
  const DividedSum sum(group_.across(), call.type, group_.divisor());
  if (sum.result() == tuttiSuccess) return begin(call, sum.op());
  note_failure(call, sum.result(), "tuttiRedOpCreatePreMulSum");
}

void FaultTolerantAllReduce::begin(KeptCall& call, tuttiRedOp_t op) {
  const tuttiComm_t comm = group_.across();
  tuttiCall_t values = TUTTI_CALL_INITIALIZER;
  values.collective = tuttiCollAllReduce;
  values.send = input_of(call);
  values.recv = call.recv;
  values.count = at(call.count);
  values.type = call.type;
  values.op = op;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic = spec_.deterministic ? 1 : 0;
  call.failed = false;
  const tuttiResult_t result =
      tuttiSubmit(&values, comm, memory_->stream(), &options, &call.request);
  if (result != tuttiSuccess) note_failure(call, result, "all_reduce");
}

/// The loss of a member is the commit's affair.
void FaultTolerantAllReduce::note_failure(KeptCall& call, tuttiResult_t result, const char* what) {
  call.request = nullptr;
  call.failed = true;
  if (is_loss(result)) return;
  --open_;
  expect_success(result, group_.across(), what);
}

/// False if one of them failed because a member is lost.
bool FaultTolerantAllReduce::wait_for_calls() {
  bool all_right = true;
  tuttiResult_t mistake = tuttiSuccess;
  for (size_t i = 0; i < open_; ++i) {
    KeptCall& call = *calls_[i];
    if (call.request != nullptr) {
      const tuttiResult_t result = tuttiRequestWait(std::exchange(call.request, nullptr));
      call.failed = result != tuttiSuccess;
      if (call.failed && !is_loss(result)) mistake = result;
    }
    all_right = all_right && !call.failed;
  }
  expect_success(mistake, group_.across(), "a call of this step");
  return all_right;
}

uint64_t FaultTolerantAllReduce::fingerprint() const {
  Fingerprint print;
  for (size_t i = 0; i < open_; ++i) {
    for (const int64_t value :
         {calls_[i]->count, int64_t{calls_[i]->type}, int64_t{calls_[i]->op}}) {
      print.add(value);
    }
  }
  return print.value();
}

StepReport FaultTolerantAllReduce::step_commit() {
  while (group_.commit(wait_for_calls(), fingerprint()) == StepOutcome::kAgain) {
    for (size_t i = 0; i < open_; ++i) begin(*calls_[i]);
  }
  const StepReport& report = group_.report();
  for (size_t i = 0; i < open_ && !all_counted(report.members); ++i) {
    const KeptCall& call = *calls_[i];
    const int64_t replicas = std::ssize(report.members) / spec_.group.shards;
    if (call.op != tuttiAvg || is_scaled_before(call.type)) continue;
    memory_->change(call.recv, call.bytes(), [&](void* values, int64_t bytes) {
      scale(values, bytes / bytes_of(call.type), call.type, replicas, report.divisor);
    });
  }
  for (size_t i = 0; i < open_; ++i) calls_[i]->zeros.reset();
  open_ = 0;
  return report;
}

}  // namespace tutti::runtime
