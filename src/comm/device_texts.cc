#include "src/comm/device_texts.h"

namespace tutti::comm {

std::string number_of(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string in_us(double ns) { return std::to_string(static_cast<int64_t>(ns / 1e3 + 0.5)); }

std::string text_of(const exec::DeviceCounts& counts) {
  std::string text =
      std::to_string(counts.copies) + " copies in " + std::to_string(counts.batches) +
      " batches, " + std::to_string(counts.operations) + " waits and writes in " +
      std::to_string(counts.groups) + " groups, " + number_of(counts.kernels, "kernel");
  if (counts.kernels > 0) text += " of up to " + number_of(counts.most_ctas, "thread block");
  if (counts.multicasts > 0) {
    text += " (" + std::to_string(counts.multicasts) + " by multicast)";
  }
  if (counts.level_calls > 0) {
    text += ", " + number_of(counts.level_calls, "call") + " of the vendor's library";
  }
  if (counts.host_functions > 0) {
    text += ", " + number_of(counts.host_functions, "function") + " of the host";
  }
  if (counts.streams > 1) text += ", in " + std::to_string(counts.streams) + " streams";
  text += " (" + std::to_string(counts.waits) + " waits; " + std::to_string(counts.copied_bytes) +
          " bytes copied, " + std::to_string(counts.crossing_bytes) + " of them in " +
          std::to_string(counts.crossing) + (counts.crossing == 1 ? " copy" : " copies") +
          " between devices";
  if (counts.kernels > 0) {
    text += "; " + std::to_string(counts.folded_bytes) + " bytes folded, " +
            std::to_string(counts.fetched_bytes) + " of them from other devices";
  }
  if (counts.multicasts > 0) {
    text += "; " + std::to_string(counts.shared_bytes) + " bytes folded by the switch";
  }
  return text + ")";
}

std::string text_of(const plan::Plan& plan, const exec::DeviceCounts& counts) {
  const uint64_t slices = plan.slices * plan.turns;
  return plan.algorithm + ", " + std::to_string(slices) + (slices == 1 ? " slice" : " slices") +
         ", " + text_of(counts);
}

std::string not_by_streams(const Status& why, EngineWish asked) {
  const std::string begin = leaves_choice(asked) || asked == EngineWish::kHost
                                ? "by the host, since "
                                : "refused, since the options ask for another engine, but ";
  return "on device memory: " + begin + std::string(why.message());
}

uint32_t signature_of(const diagnosis::DescribedCall& call) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const uint64_t word : diagnosis::words_of(call)) {
    hash = (hash ^ word) * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 16) | 1u;
}

}  // namespace tutti::comm
