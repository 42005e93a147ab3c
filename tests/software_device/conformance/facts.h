// Facts about a driver, which the same program observes on a board and on the software device. A
// fact that differs is a fault of the software device, or of what we believe.
//
// Each is observed in a process of its own, which may hang, fault or be left with a stream that
// waits for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/software_device/client.h"

namespace softdev {

/// As the call for many copies takes them.
struct BatchAttributes {
  CUmemcpyAttributes attributes{};
  size_t given = 1;
  size_t first = 0;  // the copy that they are for
};

/// A process with a current context, and shorthands for observing.
class Bench {
 public:
  /// Ends the process where there is no device. `patience_s`: how long a fact may take.
  Bench(Client opened, unsigned patience_s);

  const Client client;
  const DriverFunctions& call;
  const MoreFunctions& more;
  CUdevice device = 0;
  CUcontext context = nullptr;

  /// Device memory, all zeros.
  CUdeviceptr zeros(size_t bytes = 4096) const;
  /// Pinned host memory, all zeros.
  volatile uint32_t* pinned(size_t bytes = 4096) const;
  CUstream stream(unsigned flags = kStreamNonBlocking) const;
  /// A stream that waits for a word that nobody writes.
  CUstream held_stream() const;
  /// The word in device memory, copied by a stream of its own.
  uint32_t word_at(CUdeviceptr address) const;
  /// One copy of 64 bytes by the call for many.
  CUresult copy_batch(CUdeviceptr target, CUdeviceptr source, const BatchAttributes& attributes,
                      CUstream stream) const;
  /// "CUDA_SUCCESS", ...
  std::string name(CUresult result) const;
  /// name() of what synchronizing the stream returns.
  std::string end_of(CUstream stream) const;
  /// "returns" or "blocks": whether the work comes back within a while. In a thread of its own,
  /// with this context.
  std::string comes_back(const std::function<void()>& work) const;

 private:
  unsigned patience_s_;
};

/// Why a fact is expected: the driver's documentation says so, or we assume it until a board has
/// shown it.
enum class Source { kDocumented, kAssumed };

struct Fact {
  const char* name;
  /// "": recorded, whatever it is. "A | B": either.
  const char* expected;
  Source source;
  std::function<std::string(const Bench&)> observe;  // "hang" and "signal N" are seen from outside
};

/// Sends device memory that holds 4711, and an event, to another process, and waits to be killed.
[[noreturn]] void export_and_wait(const Bench& bench, int socket);

std::vector<Fact> release_facts();
std::vector<Fact> blocking_facts();
std::vector<Fact> copy_facts();
std::vector<Fact> memory_facts();
std::vector<Fact> capture_facts();
std::vector<Fact> graph_facts();
std::vector<Fact> attribute_facts();

}  // namespace softdev
