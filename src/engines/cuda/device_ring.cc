#include "src/engines/cuda/device_ring.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/words.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/captured_pairs.h"

namespace tutti::engines::cuda {
namespace {

constexpr uint64_t kLine = 256;
constexpr std::string_view kOffer = "ring", kStays = "stays", kFar = "far";
constexpr std::string_view kDevice = "device", kPinned = "pinned";

/// Without these streams of ranks cannot wait for each other, wherever the rings lie.
Status check_facts(const drivers::cuda::DeviceFacts& facts) {
  const std::string name = "its device (" + facts.name + ") has no ";
  if (!facts.memory_ops_64) return Status::unsupported(name + "stream operations on 64-bit words");
  if (!facts.registers_host_memory) return Status::unsupported(name + "registered host memory");
  return {};
}

/// As long as it fits into an exchange.
std::string not_reached(size_t from, size_t to, std::string_view why,
                        const exec::DeviceRankOptions& options) {
  constexpr size_t kMostBytes = 400;
  const std::string text = "the device of " + options.name_of(static_cast<int>(from)) +
                           " does not reach that of " + options.name_of(static_cast<int>(to)) +
                           ": " + std::string(why);
  return text.substr(0, kMostBytes);
}

}  // namespace

DeviceRing::DeviceRing(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
                       const exec::DeviceRankOptions& options)
    : cuda_(cuda),
      device_(device),
      rank_(static_cast<size_t>(options.rank)),
      ring_bytes_((options.ring_bytes + kLine - 1) / kLine * kLine),
      slots_(options.ring_bytes, options.arenas.size()),
      captured_slots_(slots_.with(streams::kCapturedSlots)),
      fused_layout_(FusedLayout::within(options.fused_bytes, options.arenas.size())),
      is_other_device_(options.arenas.size()),
      places_(options.arenas.size(), RingPlace::kDevice),
      moving_(options.arenas.size(), true),
      reached_(options.arenas.size()),
      theirs_(options.arenas.size()) {
  for (size_t rank = 0; rank < options.devices.size(); ++rank) {
    is_other_device_[rank] = options.devices[rank] != options.devices[rank_];
  }
}

// Behind the ring and all slots, at whole lines.
uint64_t DeviceRing::fused_offset() const {
  const uint64_t peers = places_.size() - 1;
  const uint64_t end = ring_bytes_ + peers * (slots_.pair_bytes() + captured_slots_.pair_bytes());
  return (end + kLine - 1) / kLine * kLine;
}

std::vector<CUdeviceptr> DeviceRing::fused_memories() const {
  std::vector<CUdeviceptr> memories;
  for (size_t rank = 0; rank < theirs_.size(); ++rank) {
    const std::optional<SharedRing>& ring = rank == rank_ ? mine_ : theirs_[rank];
    if (!ring || places_[rank] != RingPlace::kDevice) return {};
    memories.push_back(ring->address() + fused_offset());
  }
  return memories;
}

CUdeviceptr DeviceRing::finished() const {
  return pages_[rank_].address() + offsetof(exec::DevicePage, finished);
}

Result<std::unique_ptr<DeviceRing>> DeviceRing::open(const drivers::cuda::Cuda& cuda,
                                                     drivers::cuda::CUdevice device,
                                                     const exec::DeviceRankOptions& options) {
  std::unique_ptr<DeviceRing> made(new DeviceRing(cuda, device, options));
  Status ready = made->prepare(options);
  if (options.arenas.size() == 1 && !options.needs_ring) {
    if (!ready.ok()) return ready;
    return made;
  }
  // Each round but the last moves a ring to pinned memory, which all reach or none uses any ring.
  do {
    if (Status shared = made->share(options, ready); !shared.ok()) return shared;
  } while (std::find(made->moving_.begin(), made->moving_.end(), true) != made->moving_.end());
  made->explain();
  return made;
}

Status DeviceRing::prepare(const exec::DeviceRankOptions& options) {
  const Result<drivers::cuda::DeviceFacts> facts = drivers::cuda::DeviceFacts::read(cuda_, device_);
  if (!facts.ok()) return facts.status();
  if (Status status = check_facts(facts.value()); !status.ok()) return status;
  own_reason_ = unsupported_reason(facts.value(), options);
  if (!own_reason_.empty()) places_[rank_] = RingPlace::kPinned;
  return register_pages(options);
}

// Why the ring is pinned from the first; "": it may lie on the device.
std::string DeviceRing::unsupported_reason(const drivers::cuda::DeviceFacts& facts,
                                           const exec::DeviceRankOptions& options) const {
  if (options.arenas.size() == 1 && !options.needs_ring) return "";
  if (!options.peer_access) return "NCCL_P2P_DISABLE is 1";
  if (!facts.virtual_memory || !facts.posix_descriptors) {
    return "a device (" + facts.name + ") has no memory that processes can share by descriptors";
  }
  for (size_t peer = 0; peer < options.devices.size(); ++peer) {
    const Status access = drivers::cuda::check_access(cuda_, device_, options.devices[peer]);
    if (!access.ok()) return not_reached(peer, rank_, access.message(), options);
  }
  return "";
}

// Nobody's ring ends before all have mapped it, and it is used by all or none.
Status DeviceRing::share(const exec::DeviceRankOptions& options, Status ready) {
  if (ready.ok() && moving_[rank_]) ready = make(options);
  const auto offers = options.exchange(ready.ok() ? offer() : outcome_text(ready));
  if (!offers.ok()) return offers.status();
  Descriptors descriptors = take_from_all(options, numbers_in(offers.value()));
  if (Status problem = first_problem(offers.value(), options); !problem.ok()) return problem;
  const Status imported = import(offers.value(), std::move(descriptors), options);
  const auto outcomes = options.exchange(imported.ok() ? outcome() : outcome_text(imported));
  if (!outcomes.ok()) return outcomes.status();
  if (Status problem = first_problem(outcomes.value(), options); !problem.ok()) return problem;
  exported_.reset();
  return check_outcomes(outcomes.value(), options);
}

Status DeviceRing::make(const exec::DeviceRankOptions& options) {
  mine_.reset();
  const bool has_fused = options.fused_bytes > 0 && places_[rank_] == RingPlace::kDevice;
  const uint64_t bytes = padded(fused_offset() + (has_fused ? fused_layout_.bytes() : 0), options);
  Result<SharedRing> ring = SharedRing::make(cuda_, device_, places_[rank_], bytes);
  if (!ring.ok()) return ring.status();
  mine_.emplace(std::move(ring).value());
  fused_ = Status::unsupported("its ring lies in pinned host memory");
  if (has_fused) fused_ = clear_fused();
  Result<Fd> exported = mine_->export_descriptor();
  if (!exported.ok()) return exported.status();
  exported_ = std::move(exported).value();
  return give_to_all(options, exported_.get());
}

Status DeviceRing::clear_fused() const {
  constexpr uint64_t kPatienceNs = 5'000'000'000;
  return drivers::cuda::clear_memory(cuda_, mine_->address() + fused_offset(),
                                     fused_layout_.bytes(), kPatienceNs);
}

Status DeviceRing::register_pages(const exec::DeviceRankOptions& options) {
  for (const exec::ArenaView& arena : options.arenas) {
    Result<AliasMapping> alias = AliasMapping::create(&arena.device(), arena.device_bytes());
    if (!alias.ok()) return alias.status();
    aliases_.push_back(std::move(alias).value());
    Result<drivers::cuda::RegisteredMemory> page = drivers::cuda::RegisteredMemory::create(
        cuda_, aliases_.back().data(), arena.device_bytes());
    if (!page.ok()) return page.status();
    pages_.push_back(std::move(page).value());
  }
  return {};
}

// "ring PLACE DESCRIPTOR BYTES REASON", where the reason is the rest of the text.
std::string DeviceRing::offer() const {
  if (!moving_[rank_]) return std::string(kStays);
  const std::string_view place = places_[rank_] == RingPlace::kPinned ? kPinned : kDevice;
  return std::string(kOffer) + " " + std::string(place) + " " + std::to_string(exported_.get()) +
         " " + std::to_string(mine_->bytes()) + " " + own_reason_;
}

std::optional<DeviceRing::Offer> DeviceRing::read_offer(std::string_view text) {
  constexpr size_t kWords = 4;  // before the reason
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() <= kWords || words[0] != kOffer) return std::nullopt;
  const bool is_pinned = words[1] == kPinned;
  const auto descriptor = parse_integer<int>(words[2]);
  const auto bytes = parse_integer<uint64_t>(words[3]);
  if ((!is_pinned && words[1] != kDevice) || !descriptor || !bytes) return std::nullopt;
  const size_t before = static_cast<size_t>(words[kWords].data() - text.data());
  return Offer{is_pinned ? RingPlace::kPinned : RingPlace::kDevice, *descriptor, *bytes,
               std::string(text.substr(before))};
}

std::vector<int> DeviceRing::numbers_in(const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    numbers.push_back(read_offer(text).value_or(Offer{}).descriptor);
  }
  return numbers;
}

Status DeviceRing::import(const std::vector<std::string>& texts, Descriptors descriptors,
                          const exec::DeviceRankOptions& options) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!moving_[rank]) continue;
    const std::optional<Offer> offer = read_offer(texts[rank]);
    if (!offer) return Status::remote_error("a rank describes its ring by garbage");
    places_[rank] = offer->place;
    if (reason_.empty()) reason_ = offer->reason;
    if (rank == rank_) continue;
    theirs_[rank].reset();
    if (!descriptors[rank].ok()) return descriptors[rank].status();
    reached_[rank] =
        import(rank, *offer, std::move(descriptors[rank]).value(), options.devices[rank]);
    const bool is_last = offer->place == RingPlace::kPinned;
    if (is_last && !reached_[rank].ok()) return reached_[rank];
  }
  return {};
}

Status DeviceRing::import(size_t rank, const Offer& offer, Fd descriptor,
                          const std::string& device) {
  if (offer.place == RingPlace::kDevice) {
    const Status access = drivers::cuda::check_access(cuda_, device_, device);
    if (!access.ok()) return access;
  }
  Result<SharedRing> ring =
      SharedRing::import(cuda_, device_, offer.place, std::move(descriptor), offer.bytes);
  if (!ring.ok()) return ring.status();
  theirs_[rank].emplace(std::move(ring).value());
  return {};
}

// "far 1 2 5: REASON", of the rings that this rank does not reach: as many as fit, since the others
// can be said after the next round.
std::string DeviceRing::outcome() const {
  constexpr size_t kMostBytes = 100, kMostReasonBytes = 300;
  std::string text(kFar);
  const Status* first = nullptr;
  for (size_t rank = 0; rank < reached_.size() && text.size() < kMostBytes; ++rank) {
    if (reached_[rank].ok()) continue;
    if (first == nullptr) first = &reached_[rank];
    text += " " + std::to_string(rank);
  }
  if (first == nullptr) return outcome_text({});
  return text + ": " + std::string(first->message().substr(0, kMostReasonBytes));
}

// The text of outcome(), read. Garbage names no rank, or one that cannot move.
DeviceRing::Far DeviceRing::read_far(std::string_view text) {
  Far far;
  const size_t end = std::min(text.find(':'), text.size());
  const std::string_view ranks = trim(text.substr(kFar.size(), end - kFar.size()));
  for (const std::string_view word : split(ranks, ' ')) {
    far.ranks.push_back(parse_integer<size_t>(word).value_or(~size_t{0}));
  }
  far.why = trim(text.substr(std::min(end + 1, text.size())));
  return far;
}

// Finds out who moves in the next round.
Status DeviceRing::check_outcomes(const std::vector<std::string>& outcomes,
                                  const exec::DeviceRankOptions& options) {
  moving_.assign(moving_.size(), false);
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (!outcomes[rank].starts_with(kFar)) continue;
    const Far far = read_far(outcomes[rank]);
    for (const size_t one : far.ranks) {
      if (one >= places_.size() || places_[one] == RingPlace::kPinned) {
        return Status::remote_error("a rank says by garbage which rings it reaches");
      }
      moving_[one] = true;
    }
    if (reason_.empty()) reason_ = not_reached(rank, far.ranks.front(), far.why, options);
  }
  for (size_t rank = 0; rank < moving_.size(); ++rank) {
    if (moving_[rank]) places_[rank] = RingPlace::kPinned;
  }
  return {};
}

void DeviceRing::explain() {
  std::vector<int> pinned;
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    if (places_[rank] == RingPlace::kPinned) pinned.push_back(static_cast<int>(rank));
  }
  if (pinned.empty()) return;
  const std::string whose = pinned.size() == places_.size() ? "all ranks"
                            : pinned.size() == 1            ? "rank " + list_ranks(pinned)
                                                            : "ranks " + list_ranks(pinned);
  why_pinned_ = "rings of " + whose + " in pinned host memory, since " + reason_;
}

void DeviceRing::end() {
  pages_.clear();
  aliases_.clear();
  places_of_all_.reset();
  theirs_.clear();
  mine_.reset();
}

bool DeviceRing::is_elsewhere(size_t rank) const {
  return places_[rank] == RingPlace::kPinned || is_other_device_[rank];
}

DeviceAddresses DeviceRing::addresses() const {
  DeviceAddresses addresses;
  addresses.rank = static_cast<uint32_t>(rank_);
  if (shares_.ok()) addresses.all_rings = places_of_all_->address();
  for (size_t rank = 0; rank < theirs_.size(); ++rank) {
    const std::optional<SharedRing>& ring = rank == rank_ ? mine_ : theirs_[rank];
    addresses.rings.push_back(ring ? ring->address() : 0);
    addresses.elsewhere.push_back(is_elsewhere(rank));
    for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
      addresses.counters[lane].push_back(pages_[rank].address() +
                                         offsetof(exec::DevicePage, progress) +
                                         lane * sizeof(exec::DevicePage::Word));
    }
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
    addresses.sends.push_back({mine_->address() + ring_bytes_ + slots_.offset(rank_, peer),
                               own + kSent, other + kTaken, is_elsewhere(rank_)});
    addresses.receives.push_back(
        {theirs_[peer]->address() + ring_bytes_ + slots_.offset(peer, rank_), own + kTaken,
         other + kSent, is_elsewhere(peer)});
  }
  return addresses;
}

PairAddresses DeviceRing::captured_slots() const {
  PairAddresses addresses;
  addresses.rank = static_cast<uint32_t>(rank_);
  addresses.slots = captured_slots_;
  const uint64_t begin = ring_bytes_ + (places_.size() - 1) * slots_.pair_bytes();
  addresses.sends.resize(places_.size());
  addresses.receives.resize(places_.size());
  for (size_t peer = 0; peer < theirs_.size(); ++peer) {
    if (peer == rank_) continue;
    addresses.sends[peer].slots = mine_->address() + begin + captured_slots_.offset(rank_, peer);
    addresses.receives[peer].slots =
        theirs_[peer]->address() + begin + captured_slots_.offset(peer, rank_);
  }
  return addresses;
}

}  // namespace tutti::engines::cuda
