#include "src/bootstrap/unique_id.h"

#include <netdb.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/little.h"
#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

constexpr std::string_view kMagic = "TUTTI-ID";
constexpr uint16_t kVersion = 1;

// Offsets of the fields; the magic is at 0.
constexpr size_t kVersionAt = 8, kCountAt = 10, kFlagsAt = 11, kPortAt = 12, kGroupPortAt = 14;
constexpr size_t kJobAt = 16, kKeyAt = 32;
constexpr size_t kAddressesAt = 64, kAddressBytes = 20, kChecksumAt = 124, kChecksumBytes = 4;
constexpr uint8_t kRank0Opens = 1, kKeyless = 2, kPublic = 4;
static_assert(kAddressesAt + UniqueId::kMaxAddresses * kAddressBytes == kChecksumAt);
static_assert(kChecksumAt + kChecksumBytes == kUniqueIdBytes);

bool all_zero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

/// Finds accidental damage. It need not find malice, since a process that can alter an id knows the
/// key.
uint32_t checksum(std::span<const uint8_t> bytes) {
  std::array<uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), bytes.data(), kChecksumAt, nullptr, 0);
  return static_cast<uint32_t>(get_little(hash.data(), kChecksumBytes));
}

Status wrong(const char* what) {
  return Status::invalid_argument(std::string("this is not a unique id: its ") + what +
                                  " is wrong. All ranks need the bytes that one rank got from "
                                  "tuttiGetUniqueId, unchanged");
}

Result<std::vector<Address>> decode_addresses(std::span<const uint8_t> bytes) {
  const size_t count = bytes[kCountAt];
  if (count == 0 || count > UniqueId::kMaxAddresses) return wrong("number of addresses");
  std::vector<Address> addresses;
  for (size_t i = 0; i < UniqueId::kMaxAddresses; ++i) {
    const auto field = bytes.subspan(kAddressesAt + i * kAddressBytes, kAddressBytes);
    if (i >= count) {
      if (!all_zero(field)) return wrong("unused address");
      continue;
    }
    Address address;
    address.family = field[0];
    std::copy(field.begin() + 4, field.end(), address.bytes.begin());
    if (!all_zero(field.subspan(1, 3)) || !address.usable()) return wrong("address");
    addresses.push_back(address);
  }
  return addresses;
}

/// Bytes that all ranks with the same key find by themselves for the same name.
template <size_t kBytes>
std::array<uint8_t, kBytes> derive(const SecretKey& key, std::string_view label,
                                   std::string_view name) {
  std::array<uint8_t, kBytes> derived{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), derived.size());
  for (const std::string_view part : {label, name}) {
    crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(part.data()), part.size());
  }
  crypto_generichash_final(&state, derived.data(), derived.size());
  sodium_memzero(&state, sizeof state);
  return derived;
}

}  // namespace

Result<std::vector<Address>> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    return Status::remote_error("cannot resolve the host '" + host + "': " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const Result<Address> address = Address::from(entry->ai_addr);
    const bool room = addresses.size() < UniqueId::kMaxAddresses;
    if (room && address.ok() && address.value().usable()) addresses.push_back(address.value());
  }
  if (addresses.empty()) {
    return Status::system_error("the host '" + host + "' has no usable address");
  }
  return addresses;
}

Result<std::vector<Address>> resolve(const std::string& host, const std::string& asks,
                                     const WaitLimit& wait_limit) {
  constexpr uint64_t kFirstPauseNs = 50 * kNanosecondsPerMillisecond;
  constexpr uint64_t kLongestPauseNs = kNanosecondsPerSecond;
  for (uint64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    Result<std::vector<Address>> addresses = resolve(host);
    if (addresses.ok() || addresses.status().code() != Code::kRemoteError) return addresses;
    const std::string why = asks + " " + std::string(addresses.status().message()) +
                            " (is it the name that MASTER_ADDR or TUTTI_ID should have, and does "
                            "this host's name service know it?)";
    wait_limit.waits_for(why);
    if (wait_limit.over()) return wait_limit.reason(why);
    wait_limit.pause(pause_ns);
  }
}

UniqueIdBytes UniqueId::encode() const {
  UniqueIdBytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put_little(&bytes[kVersionAt], kVersion, 2);
  const size_t count = std::min(addresses.size(), kMaxAddresses);
  bytes[kCountAt] = static_cast<uint8_t>(count);
  bytes[kFlagsAt] = static_cast<uint8_t>((rank_0_opens ? kRank0Opens : 0) |
                                         (keyless ? kKeyless : 0) | (is_public ? kPublic : 0));
  put_little(&bytes[kPortAt], port, 2);
  put_little(&bytes[kGroupPortAt], group_port, 2);
  std::copy(job.begin(), job.end(), &bytes[kJobAt]);
  if (!is_public) std::copy(key.begin(), key.end(), &bytes[kKeyAt]);
  for (size_t i = 0; i < count; ++i) {
    uint8_t* field = &bytes[kAddressesAt + i * kAddressBytes];
    field[0] = addresses[i].family;
    std::copy(addresses[i].bytes.begin(), addresses[i].bytes.end(), field + 4);
  }
  put_little(&bytes[kChecksumAt], checksum(bytes), kChecksumBytes);
  return bytes;
}

Result<UniqueId> UniqueId::decode(std::span<const uint8_t> bytes, const SecretKey* secret) {
  if (bytes.size() != kUniqueIdBytes) return wrong("size");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return wrong("beginning");
  if (get_little(&bytes[kVersionAt], 2) != kVersion) {
    return Status::invalid_argument("the unique id was made by another version of Tutti (" +
                                    std::to_string(get_little(&bytes[kVersionAt], 2)) +
                                    ", this one is " + std::to_string(kVersion) + ")");
  }
  if (get_little(&bytes[kChecksumAt], kChecksumBytes) != checksum(bytes)) return wrong("checksum");
  const uint8_t flags = bytes[kFlagsAt];
  if ((flags & ~(kRank0Opens | kKeyless | kPublic)) != 0) return wrong("flags field");
  UniqueId id;
  id.rank_0_opens = (flags & kRank0Opens) != 0;
  id.keyless = (flags & kKeyless) != 0;
  id.port = static_cast<uint16_t>(get_little(&bytes[kPortAt], 2));
  id.group_port = static_cast<uint16_t>(get_little(&bytes[kGroupPortAt], 2));
  if (id.port == 0) return wrong("port");
  std::copy_n(&bytes[kJobAt], id.job.size(), id.job.begin());
  std::copy_n(&bytes[kKeyAt], id.key.size(), id.key.begin());
  if (all_zero(id.job)) return wrong("job id");
  const bool is_public = (flags & kPublic) != 0;
  if (all_zero(id.key) != is_public) return wrong("key");
  Result<std::vector<Address>> addresses = decode_addresses(bytes);
  if (!addresses.ok()) return addresses.status();
  id.addresses = std::move(addresses).value();
  if (!is_public) return id;
  if (secret == nullptr) {
    return Status::invalid_usage(
        "this unique id is a public one, without the group's key: set TUTTI_KEY_FILE on every rank "
        "to a file with mode 0600 that holds the job's key, as where the id was made");
  }
  id.make_public(*secret);
  return id;
}

void UniqueId::make_public(const SecretKey& secret) {
  const std::string_view name(reinterpret_cast<const char*>(job.data()), job.size());
  key = derive<sizeof key>(secret, "tutti public ", name);
  is_public = true;
}

Result<UniqueId> UniqueId::from_text(std::string_view hex) {
  const std::optional<std::string> bytes = from_hex(hex);
  if (!bytes) return wrong("text");
  return decode({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
}

UniqueId UniqueId::at(std::vector<Address> addresses, uint16_t port, const SecretKey& key,
                      std::string_view name) {
  UniqueId id;
  id.addresses = std::move(addresses);
  id.port = port;
  // Not from the key: a rank with another key shall be told that, and not that its job is another.
  id.job = derive<sizeof id.job>({}, "tutti job ", name);
  id.key = derive<sizeof id.key>(key, "tutti key ", name);
  return id;
}

uint64_t UniqueId::communicator() const { return get_little(job.data(), 8); }

Status make_secrets(UniqueId& id) {
  if (sodium_init() < 0) return Status::system_error("libsodium cannot be initialised");
  randombytes_buf(id.job.data(), id.job.size());
  randombytes_buf(id.key.data(), id.key.size());
  return {};
}

}  // namespace tutti::bootstrap
