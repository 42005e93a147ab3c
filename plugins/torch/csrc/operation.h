// A collective of c10d becomes an Operation, a value: copies into memory that Tutti can read, calls
// of tutti.h, copies out of memory that it wrote. Nothing has run yet, so that several operations
// can become one (a coalesced call), or be simulated.
//
// Owns:    keeps every tensor that its calls point to.
// Threads: a value; run() in one thread at a time.
// Errors:  CallError of a call, c10::Error of a copy.
// Units:   milliseconds.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch {

struct Copy {
  at::Tensor to;
  at::Tensor from;
};

struct Step {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  std::vector<uint8_t> scale;  // not empty: an element of call.type that scales the sum
};

class Operation {
 public:
  /// Memory with the elements of `tensor`, contiguous, for Tutti to read: the tensor's own, or a
  /// copy made when the operation runs.
  at::Tensor readable(const at::Tensor& tensor) { return reachable(tensor, Use::kRead); }
  /// The same to write to: what is no memory of the tensor is copied to it afterwards.
  at::Tensor writable(const at::Tensor& tensor) { return reachable(tensor, Use::kWrite); }
  /// The same to read and to write.
  at::Tensor both(const at::Tensor& tensor);
  /// One piece of memory with the elements of all tensors, which have one type, one after the
  /// other: that of the tensors where they lie so.
  at::Tensor readable(const std::vector<at::Tensor>& tensors) {
    return reachable(tensors, Use::kRead);
  }
  at::Tensor writable(const std::vector<at::Tensor>& tensors) {
    return reachable(tensors, Use::kWrite);
  }
  /// Kept until the operation has run.
  const size_t* keep(std::vector<size_t> counts);
  at::Tensor keep(at::Tensor memory);

  void add(const tuttiCall_t& call, std::vector<uint8_t> scale = {});
  /// Runs behind all calls and before the copies: what the library cannot reduce.
  void add_fold(std::function<void()> fold) { folds_.push_back(std::move(fold)); }
  void append(Operation other);

  /// Several calls run together, as a group. `what` names them in errors.
  void run(tuttiComm_t comm, std::chrono::milliseconds timeout, const std::string& what);
  /// The predicted time of the calls in nanoseconds, without running them.
  uint64_t predict(tuttiComm_t comm, const std::string& what);

 private:
  enum class Use { kRead, kWrite };

  at::Tensor reachable(const at::Tensor& tensor, Use use);
  at::Tensor reachable(const std::vector<at::Tensor>& tensors, Use use);
  void stage(const at::Tensor& tensor, const at::Tensor& memory, Use use);
  void submit(tuttiComm_t comm, std::chrono::milliseconds timeout, const std::string& what);

  std::vector<Copy> before_;
  std::vector<Step> steps_;
  std::vector<std::function<void()>> folds_;
  std::vector<Copy> after_;
  std::vector<at::Tensor> memory_;
  std::vector<std::vector<size_t>> counts_;
};

}  // namespace tutti_torch
