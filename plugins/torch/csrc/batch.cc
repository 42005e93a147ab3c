#include "batch.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "lane.h"

namespace tutti_torch {

void Recording::add(WorkPtr work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

std::vector<Recording::WorkPtr> Recording::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(works_, {});
}

std::vector<Recording::WorkPtr> Recording::all() {
  const std::lock_guard lock(mutex_);
  return works_;
}

void Recording::issue() {
  for (const WorkPtr& work : take()) work->lane()->submit(work);
}

BatchWork::BatchWork(int rank, std::vector<c10::intrusive_ptr<WorkTutti>> works)
    : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool BatchWork::isCompleted() {
  for (const auto& work : works_) {
    if (!work->done()) return false;
  }
  return true;
}

std::exception_ptr BatchWork::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr error = work->exception()) return error;
  }
  return nullptr;
}

bool BatchWork::isSuccess() const { return exception() == nullptr; }

bool BatchWork::wait(std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& work : works_) {
    if (timeout == kNoTimeout) {
      work->wait();
      continue;
    }
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    work->wait(std::max(timeout - spent, std::chrono::milliseconds(1)));
  }
  return true;
}

void BatchWork::abort() {
  for (const auto& work : works_) work->abort();
}

std::vector<at::Tensor> BatchWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (at::Tensor& tensor : work->result()) all.push_back(tensor);
  }
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> BatchWork::getFuture() {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  if (works_.empty()) {
    future->markCompleted(c10::IValue(std::vector<at::Tensor>()));
    return future;
  }
  const auto left = std::make_shared<std::atomic<size_t>>(works_.size());
  const auto self = c10::intrusive_ptr<BatchWork>::reclaim_copy(this);
  for (const auto& work : works_) {
    work->getFuture()->addCallback([future, left, self](c10::ivalue::Future&) {
      if (left->fetch_sub(1) != 1) return;
      if (const std::exception_ptr error = self->exception()) {
        future->setError(error);
      } else {
        future->markCompleted(c10::IValue(self->result()));
      }
    });
  }
  return future;
}

}  // namespace tutti_torch
