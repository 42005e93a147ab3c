// Functions that take turns in one thread of the host: each runs until it gives way. So a test, or
// the software device, decides which of many threads of a kernel goes on, and where one is held up.
//
// Owns: the stacks, which are used again. Threads: one, for as long as a fiber has not ended.
// Errors: the standard library's, where memory runs out. A fiber may not throw.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tutti::testing_support {

class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  /// All have ended, or were never run since they gave way: those are never finished.
  ~Fibers() {
#if defined(__SANITIZE_THREAD__)
    for (auto& one : all_) __tsan_destroy_fiber(one->sanitized);
#endif
  }

  /// The number of a fiber that will run `body`. Numbers of ended ones come again.
  size_t add(std::function<void()> body) {
    size_t number = all_.size();
    if (free_.empty()) {
      all_.push_back(std::make_unique<Fiber>());
#if defined(__SANITIZE_THREAD__)
      all_.back()->sanitized = __tsan_create_fiber(0);
#endif
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Fiber& fiber = *all_[number];
    fiber.body = std::move(body);
    fiber.ended = false;
    prepare(fiber);
    return number;
  }

  /// Runs it until it gives way. False: it has ended.
  bool run(size_t number) {
    Fiber& fiber = *all_[number];
    Fibers* const before = std::exchange(running(), this);
    current_ = &fiber;
    switch_to_fiber(fiber);
    current_ = nullptr;
    running() = before;
    if (!fiber.ended) return true;
    fiber.body = nullptr;
    free_.push_back(number);
    return false;
  }

  /// Of the fiber that runs in this thread.
  static void give_way() { running()->switch_back(false); }

 private:
  static constexpr size_t kStackBytes = size_t{128} << 10;
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
    std::function<void()> body;
    bool ended = false;
    void* fake_stack = nullptr;
    void* sanitized = nullptr;
  };

  static Fibers*& running() {
    static thread_local Fibers* one = nullptr;
    return one;
  }

  // By itself, since getcontext() may return twice.
  [[gnu::noinline]] static void prepare(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 0);
  }

  static void enter() {
    Fibers& self = *running();
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &self.host_stack_, &self.host_bytes_);
#endif
    self.current_->body();
    running()->switch_back(true);
  }

  void switch_to_fiber(Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber.stack.get(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
    host_sanitized_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber.sanitized, 0);
#endif
    swapcontext(&host_, &fiber.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  void switch_back(bool ends) {
    Fiber& fiber = *current_;
    fiber.ended = ends;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? nullptr : &fiber.fake_stack, host_stack_, host_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(host_sanitized_, 0);
#endif
    swapcontext(&fiber.context, &host_);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &host_stack_, &host_bytes_);
#endif
  }

  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<size_t> free_;
  Fiber* current_ = nullptr;
  ucontext_t host_{};
  const void* host_stack_ = nullptr;
  size_t host_bytes_ = 0;
  void* host_sanitized_ = nullptr;
};

}  // namespace tutti::testing_support
