// Contexts of a thread: which one is current, the one of a device that everybody shares, and what a
// thread may do while a stream is captured.
//
// Threads: a scope belongs to the thread that made it. No scope waits for a device.
#pragma once

#include <utility>

#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

/// Makes a context current for the calling thread, and the one before it again afterwards. Where it
/// is current already, the driver is only asked. Cheap enough for each call. Look at status()
/// first: where it failed nothing was changed.
class ContextScope {
 public:
  ContextScope(const Cuda& cuda, CUcontext context);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  const Status& status() const { return status_; }

 private:
  const Cuda& cuda_;
  Status status_;
  bool pushed_ = false;
};

/// Lets the calling thread allocate and ask although streams of others, or its own, are captured:
/// what it does is none of the captures' business. Wrappers of memory and streams use it
/// themselves.
class UncapturedScope {
 public:
  explicit UncapturedScope(const Cuda& cuda) : cuda_(cuda) { exchange(); }
  UncapturedScope(const UncapturedScope&) = delete;
  UncapturedScope& operator=(const UncapturedScope&) = delete;
  ~UncapturedScope() { exchange(); }

 private:
  void exchange() { cuda_.call.cuThreadExchangeStreamCaptureMode(&mode_); }

  const Cuda& cuda_;
  CUstreamCaptureMode mode_ = kCaptureRelaxed;
};

/// A share of the device's primary context, the one that frameworks use. The first share in a
/// process creates the context, which takes hundreds of milliseconds and device memory; the last
/// one that is given up destroys it.
///
/// Owns: the share. Lifetime: `cuda` must live longer (find()'s does).
class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(const Cuda& cuda, CUdevice device);
  /// Whether somebody in this process has a share of it.
  static bool is_active(const Cuda& cuda, int number);
  PrimaryContext(PrimaryContext&& other) noexcept
      : cuda_(other.cuda_),
        device_(other.device_),
        context_(std::exchange(other.context_, nullptr)) {}
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  CUcontext get() const { return context_; }
  CUdevice device() const { return device_; }

 private:
  PrimaryContext(const Cuda& cuda, CUdevice device, CUcontext context)
      : cuda_(&cuda), device_(device), context_(context) {}

  const Cuda* cuda_;
  CUdevice device_;
  CUcontext context_;
};

}  // namespace tutti::drivers::cuda
