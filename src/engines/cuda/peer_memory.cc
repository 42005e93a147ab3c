#include "src/engines/cuda/peer_memory.h"

#include <utility>

#include "src/base/words.h"
#include "src/drivers/cuda/reaper.h"

namespace tutti::engines::cuda {
namespace {

using drivers::cuda::CUdevice;
using drivers::cuda::CUdeviceptr;
using drivers::cuda::DeviceMemory;
using drivers::cuda::Reaper;

constexpr std::string_view kOffer = "memory", kNothing = "absent", kRanges = "at";

}  // namespace

Result<std::shared_ptr<const exec::PeerMemory>> CudaPeerMemory::share(
    const drivers::cuda::Cuda& cuda, CUdevice device, const exec::DeviceGroup& group,
    std::byte* memory, uint64_t bytes) {
  const std::shared_ptr<CudaPeerMemory> made(new CudaPeerMemory(&cuda, group.links.size()));
  made->mine_ = memory;
  made->bytes_ = bytes;
  const Status status = made->give(device, group);
  const Result<std::vector<std::string>> offers =
      group.exchange(status.ok() ? made->offer() : outcome_text(status));
  if (!offers.ok()) return offers.status();
  const Descriptors descriptors = take_from_all(group, numbers_in(offers.value()));
  if (Status problem = first_problem(offers.value(), group); !problem.ok()) return problem;
  const Status imported = made->import(device, group, offers.value(), descriptors);
  const Result<std::vector<std::string>> outcomes =
      group.exchange(imported.ok() ? made->ranges_text() : outcome_text(imported));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), group); !problem.ok()) return problem;
  made->read_ranges(outcomes.value(), static_cast<size_t>(group.rank));
  made->exported_.reset();
  return handed_out(made);
}

// It takes the descriptors that the others give to all, and has nothing to use them with.
Result<std::shared_ptr<const exec::PeerMemory>> CudaPeerMemory::take_part(
    const exec::DeviceGroup& group, bool brings_memory) {
  const Status mine = brings_memory ? Status::unsupported(
                                          "it had no current device when it made "
                                          "the communicator, and brings memory of "
                                          "one")
                                    : Status();
  const auto offers = group.exchange(mine.ok() ? std::string(kNothing) : outcome_text(mine));
  if (!offers.ok()) return offers.status();
  (void)take_from_all(group, numbers_in(offers.value()));
  if (Status problem = first_problem(offers.value(), group); !problem.ok()) return problem;
  const auto outcomes = group.exchange(outcome_text({}));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), group); !problem.ok()) return problem;
  return handed_out(
      std::shared_ptr<CudaPeerMemory>(new CudaPeerMemory(nullptr, group.links.size())));
}

// "at ADDRESS ADDRESS ...", by rank; of many ranks nothing, so that it has room in an exchange.
std::string CudaPeerMemory::ranges_text() const {
  constexpr size_t kMostRanks = 24;
  std::string text(kRanges);
  for (size_t rank = 0; ranges_.size() <= kMostRanks && rank < ranges_.size(); ++rank) {
    text += " " + std::to_string(reinterpret_cast<CUdeviceptr>(ranges_[rank]));
  }
  return text;
}

void CudaPeerMemory::read_ranges(const std::vector<std::string>& texts, size_t self) {
  seen_at_.assign(texts.size(), 0);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::vector<std::string_view> words = split(texts[rank], ' ');
    if (words[0] != kRanges || words.size() != texts.size() + 1) continue;
    seen_at_[rank] = parse_integer<uint64_t>(words[self + 1]).value_or(0);
  }
}

std::shared_ptr<const exec::PeerMemory> CudaPeerMemory::handed_out(
    const std::shared_ptr<CudaPeerMemory>& made) {
  // Allocated now, so that to let go never fails.
  auto* const kept = new Reaper::Kept(made);
  return std::shared_ptr<const exec::PeerMemory>(made.get(), [kept](const exec::PeerMemory*) {
    Reaper::get().take(std::unique_ptr<Reaper::Kept>(kept));
  });
}

Status CudaPeerMemory::give(CUdevice device, const exec::DeviceGroup& group) {
  if (mine_ == nullptr) return {};
  if (!group.peer_access) return Status::unsupported("NCCL_P2P_DISABLE is 1");
  const auto found = drivers::cuda::inspect_address(*cuda_, mine_);
  if (!found.ok()) return found.status();
  facts_ = found.value();
  if (facts_.kind != drivers::cuda::AddressKind::kDevice) {
    return Status::unsupported("the memory is not that of a device");
  }
  if (facts_.device != device) {
    return Status::unsupported("the memory is that of another device than the communicator's");
  }
  const uint64_t offset = reinterpret_cast<CUdeviceptr>(mine_) - facts_.base;
  if (offset > facts_.bytes || bytes_ > facts_.bytes - offset) {
    return Status::unsupported("the range goes beyond one allocation");
  }
  Result<Fd> exported = drivers::cuda::export_mapped(*cuda_, facts_.base);
  if (!exported.ok()) return exported.status();
  exported_ = std::move(exported).value();
  return give_to_all(group, exported_.get());
}

// "memory DESCRIPTOR ALLOCATED OFFSET BYTES"
std::string CudaPeerMemory::offer() const {
  if (mine_ == nullptr) return std::string(kNothing);
  const uint64_t offset = reinterpret_cast<CUdeviceptr>(mine_) - facts_.base;
  return std::string(kOffer) + " " + std::to_string(exported_.get()) + " " +
         std::to_string(facts_.bytes) + " " + std::to_string(offset) + " " + std::to_string(bytes_);
}

std::optional<CudaPeerMemory::SharedRange> CudaPeerMemory::read_offer(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() != 5 || words[0] != kOffer) return std::nullopt;
  const auto descriptor = parse_integer<int>(words[1]);
  const auto allocated = parse_integer<uint64_t>(words[2]);
  const auto offset = parse_integer<uint64_t>(words[3]), bytes = parse_integer<uint64_t>(words[4]);
  if (!descriptor || !allocated || !offset || !bytes) return std::nullopt;
  return SharedRange{*descriptor, *allocated, *offset, *bytes};
}

std::vector<int> CudaPeerMemory::numbers_in(const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    numbers.push_back(read_offer(text).value_or(SharedRange{}).descriptor);
  }
  return numbers;
}

Status CudaPeerMemory::import(CUdevice device, const exec::DeviceGroup& group,
                              const std::vector<std::string>& texts,
                              const Descriptors& descriptors) {
  const auto self = static_cast<size_t>(group.rank);
  theirs_.resize(texts.size());
  ranges_[self] = mine_;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank == self || texts[rank] == kNothing) continue;
    const std::optional<SharedRange> offer = read_offer(texts[rank]);
    if (!offer || offer->offset > offer->allocated ||
        offer->bytes > offer->allocated - offer->offset) {
      return Status::remote_error("a rank describes its memory by garbage");
    }
    const Result<Fd>& descriptor = descriptors[rank];
    if (!descriptor.ok()) return descriptor.status();
    const Status access = drivers::cuda::check_access(*cuda_, device, group.devices[rank]);
    if (!access.ok()) {
      return Status::unsupported("its device does not reach that of rank " + std::to_string(rank) +
                                 ": " + std::string(access.message()));
    }
    Result<DeviceMemory> memory =
        DeviceMemory::import(*cuda_, descriptor.value().get(), offer->allocated, device);
    if (!memory.ok()) return memory.status();
    theirs_[rank].emplace(std::move(memory).value());
    ranges_[rank] = reinterpret_cast<std::byte*>(theirs_[rank]->address() + offer->offset);
  }
  return {};
}

void find_places(const exec::PeerBuffers& buffers, std::vector<CUdeviceptr>& places) {
  places.clear();
  if (buffers.memory == nullptr) return;
  for (std::byte* const range : buffers.memory->ranges()) {
    const uint64_t offset = buffers.offset + places.size() * buffers.stride;
    places.push_back(reinterpret_cast<CUdeviceptr>(range) + offset);
  }
}

bool CudaPeerMemory::is_there() const {
  const auto now = drivers::cuda::inspect_address(*cuda_, mine_);
  return now.ok() && now.value().kind == facts_.kind && now.value().buffer_id == facts_.buffer_id;
}

}  // namespace tutti::engines::cuda
