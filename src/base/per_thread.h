// An object of each thread that lasts as long as the thread can call us; a thread_local does not.
//
// A thread's thread_locals are destroyed in turn, and those of the thread that calls exit() before
// the handlers of atexit and what is global. All of these may be a client's and call us. So the
// object is freed by what comes last when a thread ends, the destructors of pthread keys; exit()
// calls none, and the object stays.
//
// Threads: each has its own object. Errors: none; where the process has no key left, or the end of
// a thread goes on asking, an object is not freed. Lifetime: the library must not be unloaded.
#pragma once

#include <pthread.h>

#include <atomic>

namespace tutti {

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

  // A static that has to be made could be half made for ever in the child of a fork.
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

}  // namespace tutti
