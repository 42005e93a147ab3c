// A text, seen by every rank, that decides whether two processes can share memory.
//
// Errors:  read() gives nothing for text that write() did not make.
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tutti::transports::shm {

/// "tutti-shm-1 BOOT-ID USER USER-NAMESPACE NETWORK-NAMESPACE PROCESS SOCKET HOST-ID".
///
/// Equal host ids are the wish to share memory, the rest is the ability: one kernel (boot id), one
/// user in one user namespace (else the peer's credentials do not compare), one network namespace
/// (abstract sockets belong to it). Different PID namespaces are fine, they only rule single copies
/// out.
struct ShmCard {
  std::string boot_id;
  uint32_t user = 0;
  uint64_t user_namespace = 0;
  uint64_t network_namespace = 0;
  int32_t process = 0;  // as it sees itself
  std::string socket;   // name of the abstract socket
  std::string host_id;

  /// Of this process; `socket` stays empty.
  static Result<ShmCard> of_this_process(const std::string& host_id);
  static std::optional<ShmCard> read(std::string_view text);
  std::string write() const;
  bool shares_with(const ShmCard& peer) const;
  /// Equal where the cards share.
  std::string neighborhood() const;
};

}  // namespace tutti::transports::shm
