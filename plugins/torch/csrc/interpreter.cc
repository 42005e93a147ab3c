#include "interpreter.h"

#include <unistd.h>

#include <atomic>

namespace tutti_torch {
namespace {

// tidy: allow mutable (a process has one interpreter)
std::atomic<bool (*)()> ends_now{nullptr};

}  // namespace

void set_end_of_interpreter(bool (*ends)()) { ends_now.store(ends, std::memory_order_release); }

bool is_shut_out_of_interpreter() {
  bool (*const ends)() = ends_now.load(std::memory_order_acquire);
  return ends != nullptr && ends() && gettid() != getpid();
}

void return_to_interpreter() {
  while (is_shut_out_of_interpreter()) pause();
}

}  // namespace tutti_torch
