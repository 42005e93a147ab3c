// An object of each thread that lasts as long as the thread can call us; a thread_local does not.
// The core has the same for its own (src/base/per_thread.h), which says how and why.
//
// Threads: each has its own object. Errors: none.
#pragma once

#include <pthread.h>

#include <atomic>

namespace tutti::nccl {

/// `Tag` tells apart those who have objects of the same type.
template <class T, class Tag = T>
class PerThread {
 public:
  /// Made when the thread first asks, and again when it asks after the object's end.
  static T& get() {
    if (object_ == nullptr) {
      object_ = new T();
      (void)pthread_setspecific(key(), object_);
    }
    return *object_;
  }

 private:
  static void end(void* object) {
    object_ = nullptr;  // before: the destructor may ask for one
    delete static_cast<T*>(object);
  }

  static pthread_key_t key() {
    constexpr pthread_key_t kNone = ~pthread_key_t{0};
    // tidy: allow mutable (of the process, as pthread keys are)
    static constinit std::atomic<pthread_key_t> key{kNone};
    pthread_key_t known = key.load(std::memory_order_acquire);
    pthread_key_t made = kNone;
    if (known != kNone || pthread_key_create(&made, end) != 0) return known;
    if (key.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
    pthread_key_delete(made);  // another thread was faster
    return known;
  }

  // tidy: allow mutable (a thread's own)
  static constinit inline thread_local T* object_ = nullptr;
};

}  // namespace tutti::nccl
