// A library of the vendor's that runs whole calls of a rank's group, as an engine beside Tutti's
// own (DeviceRank::vendor()). Its part of the communicator is made in the background, while calls
// go by other engines; the first call that is to go by it waits for that.
//
// Threads: one at a time, the caller of the rank's calls. Errors: as each function says.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/diagnosis/described_call.h"

namespace tutti::exec {

/// Whether the ranks are to have it, as all of them say alike.
struct VendorWish {
  Status refusal;    // OK: they are
  std::string file;  // of the library; "": it is looked for
  // Whether it was told that ranks may share a device.
  bool shares_devices = false;
};

/// Device memory that the library has for its part of the communicator, on this rank's device.
struct VendorMemory {
  enum class CountedBy {
    kNobody,
    kDevice,   // by so much the device's free memory shrank while the part was made
    kLibrary,  // the library says so
  };
  CountedBy counted_by = CountedBy::kNobody;
  uint64_t bytes = 0;
  uint64_t given_back = 0;  // of them: while the communicator is suspended
};
/// For people: words that follow "has".
std::string text_of(const VendorMemory& memory);

class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;
  /// For people, with its version.
  virtual std::string name() const = 0;
  /// OK, or why no call goes by it. Equal on all ranks at the same call.
  virtual Status refusal() const = 0;
  /// OK, or why it runs no call of that kind. Equal on all ranks.
  virtual Status objection(const diagnosis::DescribedCall& call) const = 0;
  /// Whether settle() has returned without an error.
  virtual bool is_settled() const = 0;
  /// Waits until all ranks have it, or one of them has not: then refusal() says so on all. All
  /// ranks call it before the same call. An error: the communicator has failed meanwhile.
  virtual Status settle() = 0;
  /// As far as it is known: the library may take more when ranks first use it. While the
  /// communicator is suspended, what it had before. Threads: any.
  virtual VendorMemory memory() const = 0;
};

}  // namespace tutti::exec
