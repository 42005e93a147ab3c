#include "src/transport/door/lease_frame.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/little.h"

namespace tutti::transport::door {
namespace {

constexpr std::string_view kLeaseMagic = "TUC";
constexpr size_t kLeaseWordAt = 3, kLeaseFlagsAt = 4, kLeaseCommunicatorAt = 8, kLeaseEpochAt = 16,
                 kLeaseProofAt = 24;

}  // namespace

LeaseFrameBytes encode(const LeaseFrame& frame) {
  LeaseFrameBytes bytes{};
  auto* const at = reinterpret_cast<uint8_t*>(bytes.data());
  std::memcpy(at, kLeaseMagic.data(), kLeaseMagic.size());
  at[kLeaseWordAt] = static_cast<uint8_t>(frame.word);
  at[kLeaseFlagsAt] = frame.lacks_proof ? 1 : 0;
  put_little(at + kLeaseCommunicatorAt, frame.communicator, 8);
  put_little(at + kLeaseEpochAt, frame.epoch, 4);
  std::copy(frame.proof.begin(), frame.proof.end(), at + kLeaseProofAt);
  return bytes;
}

bool is_lease_frame(std::span<const std::byte> start) {
  return std::memcmp(start.data(), kLeaseMagic.data(), kLeaseMagic.size()) == 0;
}

std::optional<LeaseFrame> decode_lease(std::span<const std::byte, kLeaseFrameBytes> bytes) {
  const auto* const at = reinterpret_cast<const uint8_t*>(bytes.data());
  LeaseFrame frame;
  frame.word = static_cast<LeaseWord>(at[kLeaseWordAt]);
  frame.lacks_proof = at[kLeaseFlagsAt] == 1;
  frame.communicator = get_little(at + kLeaseCommunicatorAt, 8);
  frame.epoch = static_cast<uint32_t>(get_little(at + kLeaseEpochAt, 4));
  std::copy_n(at + kLeaseProofAt, frame.proof.size(), frame.proof.begin());
  const bool is_word = frame.word >= LeaseWord::kProof && frame.word <= LeaseWord::kUse;
  const LeaseFrameBytes again = encode(frame);
  if (!is_word || !std::equal(again.begin(), again.end(), bytes.begin())) return std::nullopt;
  return frame;
}

}  // namespace tutti::transport::door
