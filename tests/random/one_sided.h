// One rank's windows of one communicator: its puts and gets, and the checks of what others put into
// its parts.
//
// In a batch no two puts meet, and nobody puts to a part again before its owner has looked, which
// it tells all by kTakenSignal. Until then the calls of the batch run beside the accesses. Owns:
// the windows and their memory; close() before the communicator ends. Threads: the rank's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/random/job.h"
#include "tests/random/library.h"
#include "tests/random/memory.h"
#include "tests/random/verdict.h"

namespace tutti::random_calls {

class OneSided {
 public:
  /// Whose windows.
  struct Place {
    uint32_t communicator = 0;
    int rank = 0;
    tuttiComm_t comm = nullptr;
  };
  OneSided(const Job& job, const Place& place, const Library& library, const Verdict& verdict);

  /// The communicator has ended.
  ~OneSided();
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  /// Collective.
  bool open();
  bool close();

  /// This rank's accesses. `blocking`: they are complete on return.
  bool issue(const Call& call, bool blocking, tuttiStream_t stream);
  /// Until the puts to this rank that a signal announces are there.
  bool await(const Call& call, tuttiStream_t stream);
  /// Everything of the batch has completed here: waits for what no signal announces, looks at all
  /// of it, and until the others have, too. Collective; nothing if no call of the batch is its own.
  bool finish(const Batch& batch);

 private:
  struct Part {
    tuttiWindow_t window = nullptr;
    std::byte* memory = nullptr;
    std::unique_ptr<std::byte[]> own;  // ordinary memory
  };
  /// Memory of this rank beside a window.
  struct Buffer {
    const Call* call;
    size_t ordinal;
    bool is_source;
    Block block;
  };

  using Calls = std::vector<const Call*>;

  Calls calls_of(const Batch& batch) const;
  bool add_part();
  Block& add_buffer(const Call& call, size_t ordinal, bool is_source);
  bool put(const Call& call, size_t ordinal, bool blocking, tuttiStream_t stream);
  bool get(const Access& access, Block& target, tuttiStream_t stream);
  uint32_t window_of_signal(const Call& call, const Access& access) const;
  bool barrier();
  bool check(const Call& call);
  std::string damage(const Call& call, size_t ordinal) const;
  std::string damage(const Buffer& buffer) const;
  bool take(const Calls& calls);
  void forget(const Call& call);

  const Job& job_;
  const Communicator& communicator_;
  const uint32_t number_;  // of the communicator
  const int rank_;
  const tuttiComm_t comm_;
  const Library& library_;
  const Verdict& verdict_;
  std::vector<Part> parts_;  // of the windows
  std::vector<Buffer> buffers_;
};

}  // namespace tutti::random_calls
