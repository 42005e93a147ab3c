#include "src/engines/cuda/captured_page.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "src/base/words.h"
#include "src/engines/cuda/agreement.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using streams::CapturedMemory;
using streams::CapturedPage;
using streams::CapturedPairWords;
using streams::CapturedWord;

static_assert(sizeof(CapturedPage::SharedLine) == CapturedPairs::kWordBytes);
static_assert(CapturedPairWords::PlaceLine::kEagerSlots == PairSlots::kSlots);

Result<CapturedPages> CapturedPages::open(const drivers::cuda::Cuda& cuda,
                                          const exec::DeviceRankOptions& options) {
  CapturedPages made;
  made.arenas_.resize(options.arenas.size());
  const auto self = static_cast<size_t>(options.rank);
  Status status = made.make(options);
  const auto offers = options.exchange(status.ok() ? std::to_string(made.arenas_[self].fd())
                                                   : outcome_text(status));
  if (!offers.ok()) return offers.status();
  std::vector<int> numbers;
  for (const std::string& text : offers.value()) {
    numbers.push_back(parse_integer<int>(text).value_or(-1));
  }
  Descriptors descriptors = take_from_all(options, numbers);
  if (Status problem = first_problem(offers.value(), options); !problem.ok()) return problem;
  status = made.import(self, descriptors);
  if (status.ok()) status = made.register_all(cuda);
  const auto outcomes = options.exchange(outcome_text(status));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), options); !problem.ok()) return problem;
  return made;
}

Status CapturedPages::make(const exec::DeviceRankOptions& options) {
  const auto self = static_cast<size_t>(options.rank);
  Result<transport::Arena> arena =
      transport::Arena::create("tutti-graphs", CapturedMemory::bytes(ranks()));
  if (!arena.ok()) return arena.status();
  arenas_[self] = std::move(arena).value();
  std::vector<std::byte*> bases(ranks());
  bases[self] = arenas_[self].data();
  CapturedMemory(std::move(bases)).free_slots(self);
  return give_to_all(options, arenas_[self].fd());
}

Status CapturedPages::import(size_t self, Descriptors& descriptors) {
  for (size_t rank = 0; rank < descriptors.size(); ++rank) {
    if (rank == self) continue;
    Result<Fd>& descriptor = descriptors[rank];
    if (!descriptor.ok()) return descriptor.status();
    Result<transport::Arena> arena =
        transport::Arena::adopt(descriptor.value().release(), CapturedMemory::bytes(ranks()));
    if (!arena.ok()) return arena.status();
    arenas_[rank] = std::move(arena).value();
    arenas_[rank].close_descriptor();
  }
  std::vector<std::byte*> bases;
  for (const transport::Arena& arena : arenas_) bases.push_back(arena.data());
  memory_ = CapturedMemory(std::move(bases));
  return {};
}

Status CapturedPages::register_all(const drivers::cuda::Cuda& cuda) {
  for (const transport::Arena& arena : arenas_) {
    auto registered = drivers::cuda::RegisteredMemory::create(cuda, arena.data(),
                                                              CapturedMemory::word_bytes(ranks()));
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

CUdeviceptr CapturedPages::fused(size_t rank) const {
  return registered_[rank].address() + offsetof(CapturedPage, fused);
}

CUdeviceptr CapturedPages::words_of(size_t rank, size_t peer) const {
  return registered_[rank].address() + sizeof(CapturedPage) + peer * sizeof(CapturedPairWords);
}

PairAddresses CapturedPages::with_places(PairAddresses counted) const {
  constexpr uint64_t kPlaces =
      offsetof(CapturedPairWords, places) + offsetof(CapturedPairWords::PlaceLine, eager);
  for (size_t peer = 0; peer < ranks(); ++peer) {
    counted.sends[peer].places = words_of(counted.rank, peer) + kPlaces;
    counted.receives[peer].places = words_of(peer, counted.rank) + kPlaces;
  }
  return counted;
}

PairAddresses CapturedPages::with_words(PairAddresses slots) const {
  constexpr uint64_t kFull = offsetof(CapturedPairWords, full);
  constexpr uint64_t kEmpty = offsetof(CapturedPairWords, empty);
  constexpr uint64_t kPlaces =
      offsetof(CapturedPairWords, places) + offsetof(CapturedPairWords::PlaceLine, captured);
  for (size_t peer = 0; peer < ranks(); ++peer) {
    const CUdeviceptr mine = words_of(slots.rank, peer), theirs = words_of(peer, slots.rank);
    slots.sends[peer].places = mine + kPlaces;
    slots.receives[peer].places = theirs + kPlaces;
    slots.sends[peer].own = theirs + kFull;
    slots.sends[peer].other = mine + kEmpty;
    slots.receives[peer].own = theirs + kEmpty;
    slots.receives[peer].other = mine + kFull;
  }
  return slots;
}

}  // namespace tutti::engines::cuda
