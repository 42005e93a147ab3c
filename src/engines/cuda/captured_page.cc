#include "src/engines/cuda/captured_page.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "src/base/words.h"
#include "src/engines/cuda/agreement.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;

namespace {

constexpr uint64_t kBytes = exec::ArenaLayout::page(sizeof(CapturedPage));

}  // namespace

Result<CapturedPages> CapturedPages::open(const drivers::cuda::Cuda& cuda,
                                          const exec::DeviceRankOptions& options) {
  CapturedPages made;
  Result<transport::Arena> mine = transport::Arena::create("tutti-graphs", kBytes);
  Status status = mine.ok() ? give_to_all(options, mine.value().fd()) : mine.status();
  const auto offers =
      options.exchange(status.ok() ? std::to_string(mine.value().fd()) : outcome_text(status));
  if (!offers.ok()) return offers.status();
  std::vector<int> numbers;
  for (const std::string& text : offers.value()) {
    numbers.push_back(parse_integer<int>(text).value_or(-1));
  }
  Descriptors descriptors = take_from_all(options, numbers);
  if (Status problem = first_problem(offers.value(), options); !problem.ok()) return problem;
  made.arenas_.resize(options.arenas.size());
  made.arenas_[static_cast<size_t>(options.rank)] = std::move(mine).value();
  status = made.import(static_cast<size_t>(options.rank), descriptors);
  if (status.ok()) status = made.register_all(cuda);
  const auto outcomes = options.exchange(outcome_text(status));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), options); !problem.ok()) return problem;
  return made;
}

Status CapturedPages::import(size_t self, Descriptors& descriptors) {
  for (size_t rank = 0; rank < descriptors.size(); ++rank) {
    if (rank == self) continue;
    Result<Fd>& descriptor = descriptors[rank];
    if (!descriptor.ok()) return descriptor.status();
    Result<transport::Arena> arena = transport::Arena::adopt(descriptor.value().release(), kBytes);
    if (!arena.ok()) return arena.status();
    arenas_[rank] = std::move(arena).value();
    arenas_[rank].close_descriptor();
  }
  return {};
}

Status CapturedPages::register_all(const drivers::cuda::Cuda& cuda) {
  for (const transport::Arena& arena : arenas_) {
    auto registered = drivers::cuda::RegisteredMemory::create(cuda, arena.data(), arena.bytes());
    if (!registered.ok()) return registered.status();
    registered_.push_back(std::move(registered).value());
  }
  return {};
}

CUdeviceptr CapturedPages::word(size_t rank, CapturedWord word) const {
  return registered_[rank].address() + offsetof(CapturedPage, words) +
         static_cast<size_t>(word) * sizeof(CapturedPage::SharedLine);
}

CUdeviceptr CapturedPages::over(size_t rank) const {
  return registered_[rank].address() + offsetof(CapturedPage, over);
}

}  // namespace tutti::engines::cuda
