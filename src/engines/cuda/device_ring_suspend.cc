// The parts of DeviceRing about memory that is given back for a while.
#include <utility>

#include "src/base/words.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/device_ring.h"

namespace tutti::engines::cuda {

void DeviceRing::release_here() {
  exported_.reset();
  if (places_of_all_) places_of_all_->release();
  for (std::optional<SharedRing>& ring : theirs_) {
    if (ring) ring->release();
  }
  mine_->release();
}

// A rank's memory is free when the last peer has let go of it.
Status DeviceRing::release(const exec::DeviceRankOptions& options) {
  if (!mine_) return {};
  release_here();
  return options.exchange(outcome_text({})).status();
}

// Mailboxes begin anew with zeros, as they did at first: on all ranks, so all numbers agree.
Status DeviceRing::restore_own(const exec::DeviceRankOptions& options) {
  if (Status status = mine_->restore(device_, Fd()); !status.ok()) return status;
  if (fused_.ok()) {
    if (Status status = clear_fused(); !status.ok()) return status;
  }
  Result<Fd> exported = mine_->export_descriptor();
  if (!exported.ok()) return exported.status();
  exported_ = std::move(exported).value();
  return give_to_all(options, exported_.get());
}

Status DeviceRing::restore_theirs(Descriptors descriptors) {
  for (size_t rank = 0; rank < theirs_.size(); ++rank) {
    if (!theirs_[rank]) continue;
    if (!descriptors[rank].ok()) return descriptors[rank].status();
    Status status = theirs_[rank]->restore(device_, std::move(descriptors[rank]).value());
    if (!status.ok()) return status;
  }
  return {};
}

Status DeviceRing::restore(const exec::DeviceRankOptions& options) {
  if (!mine_) return {};
  const Status status = restore_own(options);
  const auto texts =
      options.exchange(status.ok() ? std::to_string(exported_.get()) : outcome_text(status));
  if (!texts.ok()) return texts.status();
  std::vector<int> numbers;
  for (const std::string& text : texts.value()) {
    numbers.push_back(parse_integer<int>(text).value_or(-1));
  }
  Descriptors descriptors = take_from_all(options, numbers);
  Status problem = first_problem(texts.value(), options);
  if (problem.ok()) {
    const auto outcomes = options.exchange(outcome_text(restore_theirs(std::move(descriptors))));
    if (!outcomes.ok()) return outcomes.status();
    problem = first_problem(outcomes.value(), options);
  }
  exported_.reset();
  if (problem.ok() && shares_.ok()) {
    const Status places = restore_places(options);
    if (!places.ok() && places.code() != Code::kUnsupported) return places;
    problem = places;
  }
  if (problem.ok()) return {};
  if (Status released = release(options); !released.ok()) return released;
  return Status::system_error(std::string(problem.message()));
}

uint64_t DeviceRing::device_bytes() const {
  return mine_ && mine_->place() == RingPlace::kDevice ? mine_->bytes() : 0;
}

}  // namespace tutti::engines::cuda
