#include "transports/verbs/registered_ranges.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "src/base/io.h"
#include "src/base/little.h"
#include "transports/verbs/adapter.h"

namespace tutti::transports::verbs {
namespace {

constexpr size_t kKeyBytes = 4;
static_assert(kMostRdmaRails * kKeyBytes <= transport::stream::MemoryKey::kMaxBytes);

}  // namespace

transport::stream::MemoryKey key_of(const RangeKeys& keys) {
  transport::stream::MemoryKey key;
  uint8_t bytes[kMostRdmaRails * kKeyBytes];
  for (size_t rail = 0; rail < keys.rails; ++rail) {
    put_little(bytes + rail * kKeyBytes, keys.remote[rail], kKeyBytes);
  }
  key.bytes = static_cast<uint8_t>(keys.rails * kKeyBytes);
  std::memcpy(key.data.data(), bytes, key.bytes);
  return key;
}

// A peer that gives too few keys gets what its card makes of 0.
uint32_t read_key(const transport::stream::MemoryKey& key, size_t rail) {
  if ((rail + 1) * kKeyBytes > key.bytes) return 0;
  uint8_t bytes[kKeyBytes];
  std::memcpy(bytes, key.data.data() + rail * kKeyBytes, kKeyBytes);
  return static_cast<uint32_t>(get_little(bytes, kKeyBytes));
}

Result<std::unique_ptr<RailMemory>> RailMemory::create(const Domains& domains, void* memory,
                                                       size_t bytes, int access) {
  std::unique_ptr<RailMemory> made(new RailMemory);
  for (const std::shared_ptr<Domain>& domain : domains) {
    auto registration = CardMemory::create(domain, memory, bytes, access);
    if (!registration.ok()) return registration.status();
    made->add(std::move(registration).value());
  }
  return made;
}

Result<std::unique_ptr<RailMemory>> RailMemory::create(const Domains& domains,
                                                       const transport::DeviceRange& memory,
                                                       int access) {
  std::unique_ptr<RailMemory> made(new RailMemory);
  for (const std::shared_ptr<Domain>& domain : domains) {
    auto registration = CardMemory::create(domain, memory, access);
    if (!registration.ok()) return registration.status();
    made->add(std::move(registration).value());
  }
  return made;
}

void RailMemory::add(std::unique_ptr<CardMemory> registration) {
  keys_.local[keys_.rails] = registration->local_key();
  keys_.remote[keys_.rails++] = registration->remote_key();
  registrations_.push_back(std::move(registration));
}

RailMemory::~RailMemory() = default;

// Shared, so that a forked child has the same pages and the card never another copy of them.
Result<std::unique_ptr<CardPages>> CardPages::create(const Domains& domains, size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status("mmap");
  std::unique_ptr<CardPages> made(new CardPages(static_cast<std::byte*>(memory), bytes));
  auto registration = RailMemory::create(domains, memory, bytes, api::kAccessLocalWrite);
  if (!registration.ok()) return registration.status();
  made->registration_ = std::move(registration).value();
  return made;
}

CardPages::~CardPages() {
  registration_.reset();
  munmap(memory_, bytes_);
}

Result<std::shared_ptr<const void>> register_range(RegisteredRanges& ranges, const Domains& domains,
                                                   void* memory, size_t bytes) {
  auto made =
      RailMemory::create(domains, memory, bytes,
                         api::kAccessLocalWrite | api::kAccessRemoteWrite | api::kAccessRemoteRead);
  if (!made.ok()) return made.status();
  const RangeKeys keys = made.value()->keys();
  return ranges.add(memory, bytes, keys, std::shared_ptr<const void>(std::move(made).value()));
}

}  // namespace tutti::transports::verbs
