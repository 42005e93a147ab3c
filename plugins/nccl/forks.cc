#include "plugins/nccl/forks.h"

#include <pthread.h>

#include <atomic>

namespace tutti::nccl {
namespace {

void before_fork() { process_mutex().lock(); }
void after_fork_in_parent() { process_mutex().unlock(); }

// tidy: allow mutable (pthread_atfork's handler has no argument)
std::atomic<uint32_t> generation{1};

// A child has the memory of its parent's communicators but none of their threads.
void after_fork_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  process_mutex().unlock();
}

/// When the library is loaded: no fork of a program that uses it comes before.
[[gnu::constructor]] void watch_forks() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace

std::mutex& process_mutex() {
  // tidy: allow mutable (pthread_atfork's handlers have no argument)
  static constinit std::mutex mutex;
  return mutex;
}

uint32_t process_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace tutti::nccl
