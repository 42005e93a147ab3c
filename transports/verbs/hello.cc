#include "transports/verbs/hello.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "src/base/little.h"

namespace tutti::transports::verbs {
namespace {

constexpr uint8_t kMagic[4] = {'T', 'U', 'V', '1'};
constexpr size_t kFixedBytes = 48, kPairBytes = 8;
constexpr uint32_t kNumbers = 1u << 24;
constexpr uint8_t kMostMtu = 5;
constexpr uint32_t kMostSlots = 1u << 14, kMostSlotBytes = 16u << 20;
constexpr char kReady = 'R';

void put_pair(uint8_t* at, const QueuePairEnd& pair) {
  put_little(at, pair.number, 4);
  put_little(at + 4, pair.sequence, 4);
}

QueuePairEnd get_pair(const uint8_t* at) {
  return {static_cast<uint32_t>(get_little(at, 4)), static_cast<uint32_t>(get_little(at + 4, 4))};
}

bool is_sound(const QueuePairEnd& pair) {
  return pair.number < kNumbers && pair.sequence < kNumbers;
}

Status nonsense(const std::string& what) {
  return Status::remote_error("the peer's description of its RDMA port is wrong: " + what);
}

}  // namespace

Status send_hello(int socket, const PortHello& hello, const Patience& patience) {
  std::array<uint8_t, kFixedBytes + PortHello::kMostDataPairs * kPairBytes> bytes{};
  std::memcpy(bytes.data(), kMagic, sizeof kMagic);
  bytes[4] = hello.port.mtu;
  put_little(&bytes[6], hello.port.lid, 2);
  std::memcpy(&bytes[8], hello.port.gid.raw, sizeof hello.port.gid.raw);
  put_little(&bytes[24], hello.slots, 4);
  put_little(&bytes[28], hello.slot_bytes, 4);
  put_pair(&bytes[32], hello.control);
  put_little(&bytes[40], hello.data.size(), 4);
  for (size_t i = 0; i < hello.data.size(); ++i) {
    put_pair(&bytes[kFixedBytes + i * kPairBytes], hello.data[i]);
  }
  return send_all(socket, bytes.data(), kFixedBytes + hello.data.size() * kPairBytes, patience);
}

Result<PortHello> receive_hello(int socket, const Patience& patience) {
  std::array<uint8_t, kFixedBytes + PortHello::kMostDataPairs * kPairBytes> bytes{};
  if (Status status = receive_exactly(socket, bytes.data(), kFixedBytes, patience); !status.ok()) {
    return status;
  }
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return nonsense("another version of Tutti?");
  }
  PortHello hello;
  hello.port.mtu = bytes[4];
  hello.port.lid = static_cast<uint16_t>(get_little(&bytes[6], 2));
  std::memcpy(hello.port.gid.raw, &bytes[8], sizeof hello.port.gid.raw);
  hello.slots = static_cast<uint32_t>(get_little(&bytes[24], 4));
  hello.slot_bytes = static_cast<uint32_t>(get_little(&bytes[28], 4));
  hello.control = get_pair(&bytes[32]);
  const uint64_t count = get_little(&bytes[40], 4);
  if (hello.port.mtu < 1 || hello.port.mtu > kMostMtu) return nonsense("its packets have no size");
  if (hello.slots < 2 || hello.slots > kMostSlots) return nonsense("its receives have no number");
  if (hello.slot_bytes > kMostSlotBytes) return nonsense("its receives are too large");
  if (count > PortHello::kMostDataPairs) return nonsense("too many queue pairs");
  uint8_t* const rest = &bytes[kFixedBytes];
  Status status = receive_exactly(socket, rest, count * kPairBytes, patience);
  if (!status.ok()) return status;
  for (size_t i = 0; i < count; ++i) hello.data.push_back(get_pair(rest + i * kPairBytes));
  const bool sound =
      is_sound(hello.control) && std::all_of(hello.data.begin(), hello.data.end(), is_sound);
  if (!sound) return nonsense("numbers of queue pairs beyond 24 bits");
  return hello;
}

Status exchange_ready(int socket, const Patience& patience) {
  if (Status status = send_all(socket, &kReady, 1, patience); !status.ok()) return status;
  char ready = 0;
  if (Status status = receive_exactly(socket, &ready, 1, patience); !status.ok()) return status;
  return ready == kReady ? Status() : nonsense("it is not ready");
}

}  // namespace tutti::transports::verbs
