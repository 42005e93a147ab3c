#include "transports/shm/given.h"

#include <array>
#include <string>
#include <utility>

#include "src/base/little.h"
#include "transports/shm/liveness.h"
#include "transports/shm/local_socket.h"

namespace tutti::transports::shm {
namespace {

/// {kMessage, 0, 0, 0, the number 4}
constexpr size_t kNumberAt = 4;
using Message = std::array<uint8_t, kNumberAt + 4>;

}  // namespace

Status give_descriptor(int socket, int descriptor) {
  Message message{Liveness::kMessage};
  put_little(&message[kNumberAt], static_cast<uint64_t>(descriptor), 4);
  return send_attached(socket, message, descriptor);
}

Result<Fd> take_descriptor(int socket, int descriptor) {
  constexpr uint64_t kNow = 0;
  Message message{};
  Result<Attachment> attached = receive_attached(socket, message, WaitLimit(kNow));
  if (attached.status().code() == Code::kTimeout) return Status::remote_error("it gave none");
  if (!attached.ok()) return attached.status();
  const auto number = static_cast<int>(get_little(&message[kNumberAt], 4));
  if (message[0] != Liveness::kMessage || number != descriptor) {
    return Status::remote_error("it gave its descriptor " + std::to_string(number) + ", not " +
                                std::to_string(descriptor));
  }
  return std::move(attached.value().descriptor);
}

}  // namespace tutti::transports::shm
