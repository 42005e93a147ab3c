// Device memory between processes: a descriptor and its size through a local socket.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <utility>

#include "src/base/clock.h"
#include "src/base/wait_limit.h"
#include "src/drivers/cuda/memory.h"
#include "transports/shm/local_socket.h"

namespace softdev {

/// Both ends; {-1, -1} where there are none.
inline std::pair<int, int> socket_pair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return {-1, -1};
  // Before anything is sent, so that the sender is always known.
  const int on = 1;
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  return {ends[0], ends[1]};
}

inline tutti::Status send_memory(int socket, const tutti::drivers::cuda::DeviceMemory& memory) {
  const auto exported = memory.export_descriptor();
  if (!exported.ok()) return exported.status();
  const uint64_t bytes = memory.bytes();
  return tutti::transports::shm::send_attached(
      socket, {reinterpret_cast<const uint8_t*>(&bytes), sizeof bytes}, exported.value().get());
}

inline tutti::Result<tutti::Fd> receive_memory(int socket, uint64_t* bytes) {
  constexpr uint64_t kMinute = 60'000'000'000;
  auto received = tutti::transports::shm::receive_attached(
      socket, {reinterpret_cast<uint8_t*>(bytes), sizeof *bytes},
      tutti::WaitLimit(tutti::deadline_after(kMinute)));
  if (!received.ok()) return received.status();
  return std::move(received.value().descriptor);
}

}  // namespace softdev
