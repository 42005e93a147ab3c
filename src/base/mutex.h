// A mutex, its lock, and the words by which clang proves that what a mutex guards is touched only
// while it is held (-Wthread-safety; tools/check-locks asks it). Other compilers ignore the words.
//
// A member says TUTTI_GUARDED_BY(mutex); a function that is called with the mutex held says
// TUTTI_REQUIRES(mutex). The predicate of a wait is a function of its own, so it says
// mutex.assert_held() first: clang does not see that the wait holds the mutex around it.
//
// Threads: any. Errors: none. Cost: that of std::mutex, which a Mutex is.
#pragma once

#include <mutex>

#if defined(__clang__)
#define TUTTI_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TUTTI_THREAD_ATTRIBUTE(x)
#endif

#define TUTTI_GUARDED_BY(mutex) TUTTI_THREAD_ATTRIBUTE(guarded_by(mutex))
#define TUTTI_REQUIRES(...) TUTTI_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TUTTI_ACQUIRES(...) TUTTI_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TUTTI_RELEASES(...) TUTTI_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TUTTI_RETURNS_MUTEX(mutex) TUTTI_THREAD_ATTRIBUTE(lock_returned(mutex))
/// For a function that clang cannot follow; its comment says why.
#define TUTTI_LOCKS_UNCHECKED TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tutti {

class TUTTI_THREAD_ATTRIBUTE(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() TUTTI_ACQUIRES() { std::mutex::lock(); }
  void unlock() TUTTI_RELEASES() { std::mutex::unlock(); }
  bool try_lock() TUTTI_THREAD_ATTRIBUTE(try_acquire_capability(true)) {
    return std::mutex::try_lock();
  }
  /// Does nothing: it tells clang that the caller holds the mutex.
  void assert_held() const TUTTI_THREAD_ATTRIBUTE(assert_capability(this)) {}
};

/// Holds a mutex while it lives, but between unlock() and lock(). Condition variables wait with it.
class TUTTI_THREAD_ATTRIBUTE(scoped_lockable) MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) TUTTI_ACQUIRES(mutex) : std::unique_lock<std::mutex>(mutex) {}
  /// Of a mutex that the caller holds (try_lock).
  MutexLock(Mutex& mutex, std::adopt_lock_t held) TUTTI_REQUIRES(mutex)
      : std::unique_lock<std::mutex>(mutex, held) {}
  ~MutexLock() TUTTI_RELEASES() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() TUTTI_ACQUIRES() { std::unique_lock<std::mutex>::lock(); }
  void unlock() TUTTI_RELEASES() { std::unique_lock<std::mutex>::unlock(); }
};

}  // namespace tutti
