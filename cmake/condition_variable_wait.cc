// A copy of std::condition_variable::wait for wheels (cmake/TuttiWheel.cmake). It is what the C++
// library does, and stays inside of the library that has it.
#include <condition_variable>
#include <mutex>

#pragma GCC visibility push(hidden)
void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) noexcept {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
#pragma GCC visibility pop
