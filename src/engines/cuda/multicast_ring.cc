#include "src/engines/cuda/multicast_ring.h"

#include <string>
#include <utility>
#include <vector>

#include "src/base/words.h"
#include "src/engines/cuda/agreement.h"

namespace tutti::engines::cuda {

using drivers::cuda::Cuda;
using drivers::cuda::CUdevice;
using drivers::cuda::DeviceFacts;
using drivers::cuda::DeviceMemory;

namespace {

/// A team has each device once.
Status check_apart(const exec::DeviceRankOptions& options) {
  const std::vector<std::string>& devices = options.devices;
  for (size_t one = 0; one < devices.size(); ++one) {
    for (size_t other = 0; other < one; ++other) {
      if (devices[one] != devices[other]) continue;
      return Status::unsupported(options.name_of(static_cast<int>(other)) + " and " +
                                 options.name_of(static_cast<int>(one)) + " share a device");
    }
  }
  return {};
}

}  // namespace

Result<uint64_t> MulticastRing::unit(const Cuda& cuda, CUdevice device, unsigned ranks) {
  const Result<DeviceFacts> facts = DeviceFacts::read(cuda, device);
  if (!facts.ok()) return facts.status();
  if (Status status = drivers::cuda::check_multicast(cuda, facts.value()); !status.ok()) {
    return status;
  }
  Result<size_t> found = drivers::cuda::multicast_unit(cuda, ranks);
  if (!found.ok()) return found.status();
  return uint64_t{found.value()};
}

Status MulticastRing::prepare(const exec::DeviceRankOptions& options, const DeviceMemory* own) {
  if (Status apart = check_apart(options); !apart.ok()) return apart;
  const Result<uint64_t> found = unit(cuda_, device_, ranks_);
  if (!found.ok()) return found.status();
  const uint64_t bytes = (bytes_ + found.value() - 1) / found.value() * found.value();
  if (bytes > own->bytes()) return Status::unsupported("its ring is too short for multicast");
  if (!memory_) memory_.emplace(cuda_, ranks_, bytes);
  return {};
}

// The first rank's, whose descriptor all import.
Status MulticastRing::offer(const exec::DeviceRankOptions& options, int& number) {
  if (Status made = memory_->make(); !made.ok()) return made;
  Result<Fd> exported = memory_->export_descriptor();
  if (!exported.ok()) return exported.status();
  exported_ = std::move(exported).value();
  number = exported_.get();
  return give_to_all(options, number);
}

// Each exchange is behind what all ranks must have done before the next step: nothing that the
// driver waits for in it is missing then.
Status MulticastRing::join(const exec::DeviceRankOptions& options, const DeviceMemory* own,
                           Status ready) {
  const auto agree = [&](const Status& mine) -> Status {
    const auto texts = options.exchange(outcome_text(mine));
    if (!texts.ok()) return texts.status();
    Status problem = first_problem(texts.value(), options);
    if (!problem.ok()) release();
    return problem;
  };
  if (ready.ok()) ready = prepare(options, own);
  if (Status agreed = agree(ready); !agreed.ok()) return agreed;
  int number = -1;
  const Status made = options.rank == 0 ? offer(options, number) : Status();
  const auto texts = options.exchange(made.ok() ? std::to_string(number) : outcome_text(made));
  if (!texts.ok()) return texts.status();
  const Status agreed = agree(take(options, texts.value()));
  exported_.reset();
  if (!agreed.ok()) return agreed;
  return agree(memory_->join(*own, device_));
}

Status MulticastRing::take(const exec::DeviceRankOptions& options,
                           const std::vector<std::string>& texts) {
  Result<Fd> taken = Fd();
  if (options.rank != 0) {
    taken = options.links[0]->take_descriptor(parse_integer<int>(texts[0]).value_or(-1));
  }
  if (Status problem = first_problem(texts, options); !problem.ok()) return problem;
  if (!taken.ok()) return taken.status();
  if (options.rank != 0) {
    if (Status status = memory_->import(taken.value().get()); !status.ok()) return status;
  }
  return memory_->add(device_);
}

}  // namespace tutti::engines::cuda
