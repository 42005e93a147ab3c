#include "transports/verbs/hello.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "src/base/little.h"

namespace tutti::transports::verbs {
namespace {

constexpr uint8_t kMagic[4] = {'T', 'U', 'V', '2'};
constexpr size_t kFixedBytes = 32, kPortBytes = 24, kCountBytes = 8, kPairBytes = 8;
constexpr uint32_t kNumbers = 1u << 24;
constexpr uint8_t kMostMtu = 5;
constexpr uint32_t kMostSlots = 1u << 14, kMostSlotBytes = 16u << 20;
constexpr char kReady = 'R', kFailed = 'F';

bool is_sound(const QueuePairEnd& pair) {
  return pair.number < kNumbers && pair.sequence < kNumbers;
}

Status nonsense(const std::string& what) {
  return Status::remote_error("the peer's description of its RDMA ports is wrong: " + what);
}

uint32_t word_at(const uint8_t* bytes) { return static_cast<uint32_t>(get_little(bytes, 4)); }

const char* wrong_with(const PortsHello& hello) {
  const FlowShape& wish = hello.wish;
  if (hello.slots < 2 || hello.slots > kMostSlots) return "its receives have no number";
  if (hello.slot_bytes > kMostSlotBytes) return "its receives are too large";
  if (wish.pairs < 1 || wish.pairs > kMostRdmaQueuePairs) return "too many queue pairs";
  if (wish.segment_bytes < kLeastRdmaSegment || wish.segment_bytes > kMostRdmaSegment) {
    return "segments that cannot be";
  }
  return wish.depth < 1 || wish.depth > kMostDepth ? "too many segments" : nullptr;
}

}  // namespace

Status send_hello(int socket, const PortsHello& hello, const WaitLimit& wait_limit) {
  std::vector<uint8_t> bytes(kFixedBytes + hello.ports.size() * kPortBytes);
  std::memcpy(bytes.data(), kMagic, sizeof kMagic);
  bytes[4] = static_cast<uint8_t>(hello.ports.size());
  put_little(&bytes[8], hello.slots, 4);
  put_little(&bytes[12], hello.slot_bytes, 4);
  put_little(&bytes[16], hello.wish.pairs, 4);
  put_little(&bytes[20], hello.wish.segment_bytes, 4);
  put_little(&bytes[24], hello.wish.depth, 4);
  uint8_t* at = bytes.data() + kFixedBytes;
  for (const PortEnd& port : hello.ports) {
    std::memcpy(at, port.gid.raw, sizeof port.gid.raw);
    put_little(at + 16, port.lid, 2);
    at[18] = port.mtu;
    at += kPortBytes;
  }
  return send_all(socket, bytes.data(), bytes.size(), wait_limit);
}

Result<PortsHello> receive_hello(int socket, const WaitLimit& wait_limit) {
  std::array<uint8_t, kFixedBytes> fixed{};
  if (Status status = receive_exactly(socket, fixed.data(), kFixedBytes, wait_limit);
      !status.ok()) {
    return status;
  }
  if (std::memcmp(fixed.data(), kMagic, sizeof kMagic) != 0) {
    return nonsense("another version of Tutti?");
  }
  PortsHello hello;
  hello.slots = word_at(&fixed[8]);
  hello.slot_bytes = word_at(&fixed[12]);
  hello.wish = {word_at(&fixed[16]), word_at(&fixed[20]), word_at(&fixed[24])};
  if (const char* wrong = wrong_with(hello); wrong != nullptr) return nonsense(wrong);
  if (fixed[4] < 1 || fixed[4] > kMostRdmaRails) return nonsense("a number of ports");
  std::vector<uint8_t> rest(fixed[4] * kPortBytes);
  Status status = receive_exactly(socket, rest.data(), rest.size(), wait_limit);
  if (!status.ok()) return status;
  for (size_t at = 0; at < rest.size(); at += kPortBytes) {
    PortEnd& port = hello.ports.emplace_back();
    std::memcpy(port.gid.raw, &rest[at], sizeof port.gid.raw);
    port.lid = static_cast<uint16_t>(get_little(&rest[at + 16], 2));
    port.mtu = rest[at + 18];
    if (port.mtu < 1 || port.mtu > kMostMtu) return nonsense("its packets have no size");
  }
  return hello;
}

Status send_pairs(int socket, const std::vector<QueuePairEnd>& pairs, const WaitLimit& wait_limit) {
  std::vector<uint8_t> bytes(kCountBytes + pairs.size() * kPairBytes);
  put_little(bytes.data(), pairs.size(), 4);
  uint8_t* at = bytes.data() + kCountBytes;
  for (const QueuePairEnd& pair : pairs) {
    put_little(at, pair.number, 4);
    put_little(at + 4, pair.sequence, 4);
    at += kPairBytes;
  }
  return send_all(socket, bytes.data(), bytes.size(), wait_limit);
}

Result<std::vector<QueuePairEnd>> receive_pairs(int socket, size_t count,
                                                const WaitLimit& wait_limit) {
  std::vector<uint8_t> bytes(kCountBytes + count * kPairBytes);
  Status status = receive_exactly(socket, bytes.data(), kCountBytes, wait_limit);
  if (!status.ok()) return status;
  if (word_at(bytes.data()) != count) return nonsense("another number of queue pairs");
  status = receive_exactly(socket, &bytes[kCountBytes], count * kPairBytes, wait_limit);
  if (!status.ok()) return status;
  std::vector<QueuePairEnd> pairs;
  for (size_t at = kCountBytes; at < bytes.size(); at += kPairBytes) {
    pairs.push_back({word_at(&bytes[at]), word_at(&bytes[at + 4])});
  }
  if (std::all_of(pairs.begin(), pairs.end(), is_sound)) return pairs;
  return nonsense("numbers of queue pairs beyond 24 bits");
}

Status exchange_ready(int socket, const WaitLimit& wait_limit) {
  if (Status status = send_all(socket, &kReady, 1, wait_limit); !status.ok()) return status;
  char ready = 0;
  if (Status status = receive_exactly(socket, &ready, 1, wait_limit); !status.ok()) return status;
  return ready == kReady ? Status() : nonsense("it is not ready");
}

// ---- pairs that fail ----------------------------------------------------------------------------

void LaneWords::say(const ClosedLane& closed) {
  uint8_t bytes[kBytes] = {kFailed, static_cast<uint8_t>(closed.lane),
                           static_cast<uint8_t>(closed.fault)};
  put_little(&bytes[8], closed.taken, 8);
  out_.insert(out_.end(), bytes, bytes + kBytes);
}

void LaneWords::flush(int socket) {
  if (out_.empty()) return;
  const ssize_t sent = send(socket, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) out_.erase(out_.begin(), out_.begin() + sent);
}

Result<std::optional<ClosedLane>> LaneWords::hear(int socket, size_t lanes) {
  const ssize_t count = recv(socket, in_.data() + have_, kBytes - have_, MSG_DONTWAIT);
  if (count > 0) have_ += static_cast<size_t>(count);
  if (have_ < kBytes) return std::optional<ClosedLane>();
  have_ = 0;
  const ClosedLane closed{in_[1], get_little(&in_[8], 8), static_cast<LaneFault>(in_[2])};
  if (in_[0] != kFailed || closed.lane >= lanes || closed.fault > LaneFault::kSilence) {
    return Status::remote_error("it said what no Tutti says");
  }
  return std::optional(closed);
}

}  // namespace tutti::transports::verbs
