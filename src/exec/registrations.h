// Memory that every rank of a domain registered together, for collectives: by the number under
// which the ranks name it to each other.
//
// Owns: the registrations. Threads: one at a time. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/transport/import.h"

namespace tutti::exec {

struct Registration {
  static constexpr uint32_t kNone = 0;
  // In a word between ranks: the number above the offset.
  static constexpr int kOffsetBits = 40;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << kOffsetBits;
  static constexpr uint32_t kNumbers = 1u << (64 - kOffsetBits);

  std::byte* mine = nullptr;
  uint64_t bytes = 0;             // at most kMaxBytes
  uint32_t number = kNone;        // below kNumbers; how ranks name it to each other
  std::vector<std::byte*> peers;  // the peers' ranges as they lie here; null outside the domain
  std::vector<transport::Import> imports;  // keep them there
  std::shared_ptr<const void> owner;       // keeps `mine` if it is freed meanwhile
};

class Registrations {
 public:
  /// `before`: numbers that count as taken by earlier registrations.
  explicit Registrations(uint32_t before) : last_number_(before % Registration::kNumbers) {}

  /// Returns the number it gets here: ranks add them in the same order, and may remove them in any.
  /// kNone if an old one still has that number.
  uint32_t add(Registration made);
  /// The same under the number that it has, in an epoch that follows an edit.
  void restore(Registration kept);
  uint32_t last_number() const { return last_number_; }
  /// Numbers up to this one count as taken.
  void skip_to(uint32_t number) { last_number_ = number % Registration::kNumbers; }
  /// Not while a call uses it. Dropping what it returns gives the memory back.
  Registration remove(uint32_t number);
  bool empty() const { return all_.empty(); }
  /// Null if there is none.
  const Registration* numbered(uint32_t number) const;
  /// The registration that holds [memory, memory + bytes); null if none.
  const Registration* holding(const void* memory, uint64_t bytes) const;

 private:
  std::vector<Registration> all_;
  uint32_t last_number_;
};

}  // namespace tutti::exec
