#include "operation.h"

#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

/// Whether the elements lie one after the other as they are, none of them negated or conjugated
/// when it is read.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/// Whether the tensors are the pieces of one contiguous buffer, in order.
bool are_consecutive(const std::vector<at::Tensor>& tensors) {
  const char* expected = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return false;
    if (tensor.numel() == 0) continue;
    const char* begin = static_cast<const char*>(tensor.data_ptr());
    if (expected != nullptr && (begin != expected || !tensor.is_alias_of(tensors.front()))) {
      return false;
    }
    expected = begin + tensor.nbytes();
  }
  return true;
}

at::Tensor staging(int64_t elements, const at::Tensor& like) {
  return at::empty({elements}, like.options().requires_grad(false));
}

int64_t total(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

/// An operation of the communicator that lives as long as this does.
class ScaledSum {
 public:
  ScaledSum(const Step& step, tuttiComm_t comm, const std::string& what) : comm_(comm) {
    if (step.scale.empty()) return;
    void* scalar = const_cast<uint8_t*>(step.scale.data());
    check(tuttiRedOpCreatePreMulSum(&op_, scalar, step.call.type, tuttiScalarHostImmediate, comm),
          what, nullptr, {});
    made_ = true;
  }
  ScaledSum(const ScaledSum&) = delete;
  ScaledSum& operator=(const ScaledSum&) = delete;
  ~ScaledSum() {
    if (made_) tuttiRedOpDestroy(op_, comm_);
  }
  tuttiRedOp_t or_else(tuttiRedOp_t op) const { return made_ ? op_ : op; }

 private:
  tuttiComm_t comm_;
  tuttiRedOp_t op_ = tuttiSum;
  bool made_ = false;
};

uint64_t nanoseconds(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) return UINT64_MAX;
  const auto longest =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds(INT64_MAX));
  if (timeout >= longest) return UINT64_MAX;
  return static_cast<uint64_t>(std::chrono::nanoseconds(timeout).count());
}

void submit_one(const Step& step, tuttiComm_t comm, const tuttiOptions_t& options,
                const std::string& what, std::chrono::milliseconds timeout) {
  const ScaledSum scaled(step, comm, what);
  tuttiCall_t call = step.call;
  call.op = scaled.or_else(call.op);
  check(tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr), what, comm, timeout);
}

}  // namespace

at::Tensor Operation::keep(at::Tensor memory) {
  memory_.push_back(std::move(memory));
  return memory_.back();
}

const size_t* Operation::keep(std::vector<size_t> counts) {
  counts_.push_back(std::move(counts));
  return counts_.back().data();
}

void Operation::stage(const at::Tensor& tensor, const at::Tensor& memory, Use use) {
  if (use == Use::kRead) {
    before_.push_back({memory, tensor.detach()});
  } else {
    after_.push_back({tensor.detach(), memory});
  }
}

at::Tensor Operation::reachable(const at::Tensor& tensor, Use use) {
  if (is_plain(tensor)) return keep(tensor);
  const at::Tensor memory = staging(tensor.numel(), tensor).view(tensor.sizes());
  stage(tensor, memory, use);
  return keep(memory);
}

at::Tensor Operation::both(const at::Tensor& tensor) {
  const at::Tensor memory = readable(tensor);
  if (!memory.is_same(tensor)) after_.push_back({tensor.detach(), memory});
  return memory;
}

at::Tensor Operation::reachable(const std::vector<at::Tensor>& tensors, Use use) {
  for (const at::Tensor& tensor : tensors) keep(tensor);
  if (are_consecutive(tensors)) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.numel() > 0) return tensor;
    }
    return tensors.front();
  }
  const at::Tensor packed = staging(total(tensors), tensors.front());
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    stage(tensor, packed.narrow(0, begin, tensor.numel()).view(tensor.sizes()), use);
    begin += tensor.numel();
  }
  return keep(packed);
}

void Operation::add(const tuttiCall_t& call, std::vector<uint8_t> scale) {
  steps_.push_back({call, std::move(scale)});
}

void Operation::append(Operation other) {
  const auto move_all = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_all(before_, other.before_);
  move_all(steps_, other.steps_);
  move_all(folds_, other.folds_);
  move_all(after_, other.after_);
  move_all(memory_, other.memory_);
  move_all(counts_, other.counts_);
}

void Operation::submit(tuttiComm_t comm, std::chrono::milliseconds timeout,
                       const std::string& what) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = nanoseconds(timeout);
  for (const Step& step : steps_) submit_one(step, comm, options, what, timeout);
}

void Operation::run(tuttiComm_t comm, std::chrono::milliseconds timeout, const std::string& what) {
  const at::NoGradGuard no_grad;
  for (const Copy& copy : before_) copy.to.copy_(copy.from);
  if (steps_.size() <= 1) {
    submit(comm, timeout, what);
  } else {
    check(tuttiGroupStart(), what, nullptr, timeout);
    try {
      submit(comm, timeout, what);
    } catch (...) {
      tuttiGroupDiscard();
      throw;
    }
    check(tuttiGroupEnd(), what, nullptr, timeout);
  }
  for (const auto& fold : folds_) fold();
  for (const Copy& copy : after_) copy.to.copy_(copy.from);
}

uint64_t Operation::predict(tuttiComm_t comm, const std::string& what) {
  check(tuttiGroupStart(), what, nullptr, {});
  try {
    submit(comm, {}, what);
  } catch (...) {
    tuttiGroupDiscard();
    throw;
  }
  uint64_t result = 0;
  check(tuttiGroupSimulateEnd(&result), what, nullptr, {});
  return result;
}

}  // namespace tutti_torch
