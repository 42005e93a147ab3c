#include "transports/ucx/hello.h"

#include <array>
#include <cstring>

#include "src/base/io.h"
#include "src/base/little.h"

namespace tutti::transports::ucx {
namespace {

constexpr uint8_t kMagic[4] = {'T', 'U', 'X', '1'};
constexpr size_t kFixedBytes = 20;

Status nonsense(const char* what) {
  return Status::remote_error(std::string("the peer's description of its UCX workers is wrong: ") +
                              what);
}

}  // namespace

Status send_hello(int socket, const WorkerHello& hello, const WaitLimit& wait_limit) {
  std::array<uint8_t, kFixedBytes> fixed{};
  std::memcpy(fixed.data(), kMagic, sizeof kMagic);
  put_little(&fixed[4], hello.token, 8);
  put_little(&fixed[12], hello.frames.size(), 4);
  put_little(&fixed[16], hello.writes.size(), 4);
  std::string bytes(fixed.begin(), fixed.end());
  bytes += hello.frames + hello.writes;
  return send_all(socket, bytes.data(), bytes.size(), wait_limit);
}

Result<WorkerHello> receive_hello(int socket, const WaitLimit& wait_limit) {
  std::array<uint8_t, kFixedBytes> fixed{};
  Status status = receive_exactly(socket, fixed.data(), fixed.size(), wait_limit);
  if (!status.ok()) return status;
  if (std::memcmp(fixed.data(), kMagic, sizeof kMagic) != 0) {
    return nonsense("another version of Tutti?");
  }
  WorkerHello hello;
  hello.token = get_little(&fixed[4], 8);
  for (auto [address, at] : {std::pair{&hello.frames, 12}, std::pair{&hello.writes, 16}}) {
    const uint64_t bytes = get_little(&fixed[static_cast<size_t>(at)], 4);
    if (bytes == 0 || bytes > WorkerHello::kMostAddressBytes) {
      return nonsense("an address of no use");
    }
    address->resize(bytes);
  }
  for (std::string* address : {&hello.frames, &hello.writes}) {
    status = receive_exactly(socket, address->data(), address->size(), wait_limit);
    if (!status.ok()) return status;
  }
  return hello;
}

}  // namespace tutti::transports::ucx
