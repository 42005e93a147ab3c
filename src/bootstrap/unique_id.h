// All ranks of a job are given this before they know each other: where to meet, and the job's key.
//
// 128 bytes, so that it fits where NCCL's id goes. Unless it is a public one it holds the key: it
// is a secret, never logged and never on a command line. Bytes from outside are believed only
// after decode().
//
// Wire: magic 8, version 2, addresses 1, flags 1, port 2, group port 2, job 16, key 32, three
// addresses of {family 1, 0 3, bytes 16}, checksum 4. Integers little endian.
//
// Errors: kInvalidArgument says which field is wrong, without showing it. Threads: a value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/address.h"
#include "src/transport/member.h"

namespace tutti::bootstrap {

inline constexpr size_t kUniqueIdBytes = 128;
using UniqueIdBytes = std::array<uint8_t, kUniqueIdBytes>;
using JobId = std::array<uint8_t, 16>;

/// The addresses of a host by name or number that others can use, at most
/// UniqueId::kMaxAddresses; at least one. kRemoteError: nobody knows the name, or not yet.
Result<std::vector<Address>> resolve(const std::string& host);

/// The same, tried again while nobody knows the name, since what starts a job may make the names of
/// its hosts last. `asks`, for messages: "rank 1 of 2".
Result<std::vector<Address>> resolve(const std::string& host, const std::string& asks,
                                     const WaitLimit& wait_limit);

struct UniqueId {
  static constexpr size_t kMaxAddresses = 3;

  std::vector<Address> addresses;  // 1 to kMaxAddresses; tried in this order
  uint16_t port = 0;
  // Where the maker's communicator lets newcomers in while it is edited, at one of the addresses;
  // 0: the id was not made from a communicator.
  uint16_t group_port = 0;
  JobId job{};
  transport::JobKey key{};
  bool at_place = false;      // groups meet there one after the other; not handed on
  bool rank_0_opens = false;  // the place: no process did when the id was made
  bool keyless = false;       // anybody can compute the key
  bool is_public = false;     // its bytes do not hold the key, which follows from the job's secret

  UniqueIdBytes encode() const;
  /// `secret` is the job's; null: there is none, and a public id cannot be used.
  static Result<UniqueId> decode(std::span<const uint8_t> bytes, const SecretKey* secret = nullptr);

  /// From the 256 hexadecimal digits of the bytes.
  static Result<UniqueId> from_text(std::string_view hex);

  /// A place that all ranks were told, with a key that came another way. The job id follows from
  /// `name`, its key from both, so that every rank finds the same ones by itself, and one key
  /// serves many groups. `addresses`: of the host, which every process must resolve to the same
  /// machine.
  static UniqueId at(std::vector<Address> addresses, uint16_t port, const SecretKey& key,
                     std::string_view name);

  /// The id is public from now on, with the key that follows from its job id and the secret.
  void make_public(const SecretKey& secret);

  /// Short for keys of connections: the first bytes of the job id.
  uint64_t communicator() const;
};

/// A new random job id and key.
Status make_secrets(UniqueId& id);

}  // namespace tutti::bootstrap
