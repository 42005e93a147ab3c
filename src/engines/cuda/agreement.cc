#include "src/engines/cuda/agreement.h"

#include <string_view>

namespace tutti::engines::cuda {
namespace {

constexpr std::string_view kCannot = "no", kDone = "ok";

}  // namespace

std::string outcome_text(const Status& status) {
  constexpr size_t kMostBytes = 400;
  return status.ok()
             ? std::string(kDone)
             : std::string(kCannot) + " " + std::string(status.message().substr(0, kMostBytes));
}

Status first_problem(const std::vector<std::string>& texts, const exec::DeviceGroup& group) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].starts_with(kCannot)) continue;
    return Status::unsupported(group.name_of(static_cast<int>(rank)) + ": " +
                               texts[rank].substr(kCannot.size() + 1));
  }
  return {};
}

Status give_to_all(const exec::DeviceGroup& group, int descriptor) {
  for (transport::Mapped* link : group.links) {
    if (link == nullptr) continue;
    if (Status status = link->give_descriptor(descriptor); !status.ok()) return status;
  }
  return {};
}

Descriptors take_from_all(const exec::DeviceGroup& group, std::span<const int> numbers) {
  Descriptors taken;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    transport::Mapped* const link = group.links[rank];
    taken.push_back(link == nullptr ? Result<Fd>(Fd()) : link->take_descriptor(numbers[rank]));
  }
  return taken;
}

}  // namespace tutti::engines::cuda
