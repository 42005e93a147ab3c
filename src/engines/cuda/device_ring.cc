#include "src/engines/cuda/device_ring.h"

#include <cstddef>
#include <utility>

#include "src/base/words.h"
#include "src/drivers/cuda/device.h"
#include "src/engines/cuda/agreement.h"

namespace tutti::engines::cuda {
namespace {

constexpr uint64_t kLine = 256;
constexpr std::string_view kOffer = "ring";

Status check_facts(const drivers::cuda::DeviceFacts& facts) {
  const std::string name = "its device (" + facts.name + ") has no ";
  if (!facts.memory_ops_64) return Status::unsupported(name + "stream operations on 64-bit words");
  if (!facts.virtual_memory || !facts.posix_descriptors) {
    return Status::unsupported(name + "memory that processes can share by descriptors");
  }
  if (!facts.registers_host_memory) return Status::unsupported(name + "registered host memory");
  return {};
}

}  // namespace

DeviceRing::DeviceRing(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
                       const exec::DeviceRankOptions& options)
    : cuda_(cuda),
      device_(device),
      rank_(static_cast<size_t>(options.rank)),
      ring_bytes_((options.ring_bytes + kLine - 1) / kLine * kLine),
      slots_(options.ring_bytes, options.arenas.size()) {}

CUdeviceptr DeviceRing::finished() const {
  return pages_[rank_].address() + offsetof(exec::DevicePage, finished);
}

Result<std::unique_ptr<DeviceRing>> DeviceRing::open(const drivers::cuda::Cuda& cuda,
                                                     drivers::cuda::CUdevice device,
                                                     const exec::DeviceRankOptions& options) {
  std::unique_ptr<DeviceRing> made(new DeviceRing(cuda, device, options));
  const Status status = made->make(options);
  const Result<std::vector<std::string>> offers =
      options.exchange(status.ok() ? made->offer() : outcome_text(status));
  if (!offers.ok()) return offers.status();
  const Descriptors descriptors = take_from_all(options, numbers_in(offers.value()));
  if (Status problem = first_problem(offers.value(), options); !problem.ok()) return problem;
  // Nobody's ring ends before all have mapped it, and it is used by all or none.
  const Result<std::vector<std::string>> outcomes =
      options.exchange(outcome_text(made->import(offers.value(), descriptors)));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), options); !problem.ok()) return problem;
  made->exported_.reset();
  return made;
}

Status DeviceRing::make(const exec::DeviceRankOptions& options) {
  const Result<drivers::cuda::DeviceFacts> facts = drivers::cuda::DeviceFacts::read(cuda_, device_);
  if (!facts.ok()) return facts.status();
  if (Status status = check_facts(facts.value()); !status.ok()) return status;
  Result<drivers::cuda::DeviceMemory> memory =
      drivers::cuda::DeviceMemory::allocate(cuda_, device_, ring_bytes_ + options.ring_bytes);
  if (!memory.ok()) return memory.status();
  mine_.emplace(std::move(memory).value());
  Result<Fd> exported = mine_->export_descriptor();
  if (!exported.ok()) return exported.status();
  exported_ = std::move(exported).value();
  if (Status status = register_pages(options); !status.ok()) return status;
  return give_to_all(options, exported_.get());
}

Status DeviceRing::register_pages(const exec::DeviceRankOptions& options) {
  for (const exec::ArenaView& arena : options.arenas) {
    Result<drivers::cuda::RegisteredMemory> page =
        drivers::cuda::RegisteredMemory::create(cuda_, &arena.device(), arena.device_bytes());
    if (!page.ok()) return page.status();
    pages_.push_back(std::move(page).value());
  }
  return {};
}

// "ring DESCRIPTOR BYTES"
std::string DeviceRing::offer() const {
  return std::string(kOffer) + " " + std::to_string(exported_.get()) + " " +
         std::to_string(mine_->bytes());
}

std::optional<DeviceRing::Offer> DeviceRing::read_offer(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() != 3 || words[0] != kOffer) return std::nullopt;
  const auto descriptor = parse_integer<int>(words[1]);
  const auto bytes = parse_integer<uint64_t>(words[2]);
  if (!descriptor || !bytes) return std::nullopt;
  return Offer{*descriptor, *bytes};
}

std::vector<int> DeviceRing::numbers_in(const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    numbers.push_back(read_offer(text).value_or(Offer{}).descriptor);
  }
  return numbers;
}

Status DeviceRing::import(const std::vector<std::string>& texts, const Descriptors& descriptors) {
  theirs_.resize(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank == rank_) continue;
    const std::optional<Offer> offer = read_offer(texts[rank]);
    if (!offer) return Status::remote_error("a rank describes its ring by garbage");
    const Result<Fd>& descriptor = descriptors[rank];
    if (!descriptor.ok()) return descriptor.status();
    Result<drivers::cuda::DeviceMemory> memory =
        drivers::cuda::DeviceMemory::import(cuda_, descriptor.value().get(), offer->bytes, device_);
    if (!memory.ok()) return memory.status();
    theirs_[rank].emplace(std::move(memory).value());
  }
  return {};
}

void DeviceRing::end() {
  pages_.clear();
  theirs_.clear();
  mine_.reset();
}

DeviceAddresses DeviceRing::addresses() const {
  DeviceAddresses addresses;
  addresses.rank = static_cast<uint32_t>(rank_);
  for (size_t rank = 0; rank < theirs_.size(); ++rank) {
    addresses.rings.push_back(rank == rank_ ? mine_->address() : theirs_[rank]->address());
    addresses.counters.push_back(pages_[rank].address() + offsetof(exec::DevicePage, progress));
  }
  return addresses;
}

PairAddresses DeviceRing::pair_addresses() const {
  PairAddresses addresses;
  addresses.rank = static_cast<uint32_t>(rank_);
  addresses.slots = slots_;
  for (size_t peer = 0; peer < theirs_.size(); ++peer) {
    if (peer == rank_) {
      addresses.sends.emplace_back();
      addresses.receives.emplace_back();
      continue;
    }
    const CUdeviceptr own = pages_[rank_].address() + exec::ArenaView::device_pair_offset(peer);
    const CUdeviceptr other = pages_[peer].address() + exec::ArenaView::device_pair_offset(rank_);
    constexpr size_t kSent = offsetof(exec::DevicePair, sent);
    constexpr size_t kTaken = offsetof(exec::DevicePair, taken);
    addresses.sends.push_back(
        {mine_->address() + ring_bytes_ + slots_.offset(rank_, peer), own + kSent, other + kTaken});
    addresses.receives.push_back(
        {theirs_[peer]->address() + ring_bytes_ + slots_.offset(peer, rank_), own + kTaken,
         other + kSent});
  }
  return addresses;
}

}  // namespace tutti::engines::cuda
