#include "src/engines/cuda/nccl_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/nccl_level.h"

namespace tutti::engines::cuda {

using drivers::cuda::Cuda;
using drivers::nccl::Nccl;

namespace {

constexpr std::string_view kOffers = "nccl";
constexpr int kSharingVersion = 23000;  // the first whose ranks may share a device
constexpr int kMajorThatFoldsBytes = 9;

/// A rank tells the others the version of its library, the major number of its device, whether it
/// was told that ranks share devices, whether the library gives memory back, and an id for all.
struct NcclOffer {
  int version = 0, major = 0;
  bool shares = false, suspends = false;
  drivers::nccl::NcclId id{};

  std::string text() const {
    const std::string bytes(id.bytes, sizeof id.bytes);
    return std::string(kOffers) + " " + std::to_string(version) + " " + std::to_string(major) +
           (shares ? " 1" : " 0") + (suspends ? " 1 " : " 0 ") + to_hex(bytes);
  }

  static Result<NcclOffer> read(const std::string& text) {
    const std::vector<std::string_view> words = split(text, ' ');
    constexpr size_t kWords = 6;
    NcclOffer offer;
    if (words.size() == kWords && words[0] == kOffers) {
      const std::optional<std::string> bytes = from_hex(words[5]);
      offer.version = parse_integer<int>(words[1]).value_or(0);
      offer.major = parse_integer<int>(words[2]).value_or(0);
      offer.shares = words[3] == "1";
      offer.suspends = words[4] == "1";
      if (bytes && bytes->size() == sizeof offer.id.bytes && offer.version > 0) {
        std::memcpy(offer.id.bytes, bytes->data(), bytes->size());
        return offer;
      }
    }
    return Status::remote_error("a rank says by garbage which NCCL it has");
  }
};

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// All that NCCL asks of its ranks.
Status check_offers(const std::vector<NcclOffer>& offers, const exec::DeviceRankOptions& options) {
  const std::set<std::string> devices(options.devices.begin(), options.devices.end());
  const bool share = devices.size() < options.devices.size();
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    const NcclOffer& offer = offers[rank];
    const std::string name = options.name_of(static_cast<int>(rank));
    if (offer.version != offers[0].version) {
      return Status::unsupported(
          "the ranks have different versions of NCCL: " + options.name_of(0) + " has " +
          version_text(offers[0].version) + ", " + name + " has " + version_text(offer.version));
    }
    if (!share) continue;
    if (offer.version < kSharingVersion) {
      return Status::unsupported("ranks share a device, which NCCL " + version_text(offer.version) +
                                 " cannot");
    }
    if (offer.shares) continue;
    return Status::unsupported(
        "ranks share a device, which NCCL does not take unless NCCL_MULTI_RANK_GPU_ENABLE is 1, "
        "and it is not for " +
        name);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<NcclEngine>> NcclEngine::open(const Cuda& cuda,
                                                     drivers::cuda::CUcontext context,
                                                     const exec::DeviceRankOptions& options,
                                                     NcclWords words) {
  std::shared_ptr<NcclEngine> made(new NcclEngine(cuda, options, words));
  Status prepared = options.vendor.refusal.ok() ? made->prepare(context) : options.vendor.refusal;
  if (!prepared.ok() && prepared.code() != Code::kUnsupported) return prepared;
  made->refusal_ = std::move(prepared);
  return made;
}

Status NcclEngine::prepare(drivers::cuda::CUcontext context) {
  const Result<Nccl>& found = drivers::nccl::find(options_.vendor.file);
  NcclOffer mine;
  Status status = found.ok() ? Status() : found.status();
  if (status.ok()) {
    mine.version = found.value().version();
    mine.suspends = found.value().suspends();
    mine.shares = options_.vendor.shares_devices;
    drivers::cuda::CUdevice device = 0;
    status = cuda_.check(cuda_.call.cuCtxGetDevice(&device), "cuCtxGetDevice");
    const Result<int> major =
        drivers::cuda::device_attribute(cuda_, device, drivers::cuda::kDeviceCapabilityMajor);
    if (major.ok()) mine.major = major.value();
  }
  if (status.ok() && rank_ == 0) {
    const Nccl& nccl = found.value();
    status = nccl.check(nccl.call.ncclGetUniqueId(&mine.id), "ncclGetUniqueId");
  }
  const auto texts = options_.exchange(status.ok() ? mine.text() : outcome_text(status));
  if (!texts.ok()) return texts.status();
  if (Status problem = first_problem(texts.value(), options_); !problem.ok()) return problem;
  std::vector<NcclOffer> offers;
  for (const std::string& text : texts.value()) {
    Result<NcclOffer> offer = NcclOffer::read(text);
    if (!offer.ok()) return offer.status();
    offers.push_back(offer.value());
  }
  if (Status lacks = check_offers(offers, options_); !lacks.ok()) return lacks;
  library_ = &found.value();
  powers_.types = library_->types();
  powers_.folds_bytes = std::all_of(offers.begin(), offers.end(), [](const NcclOffer& one) {
    return one.major >= kMajorThatFoldsBytes;
  });
  suspends_ = std::ranges::all_of(offers, &NcclOffer::suspends);
  NcclCommunicator::NcclSeat seat{.library = library_, .cuda = &cuda_, .context = context};
  seat.rank = rank_;
  seat.ranks = ranks_;
  seat.id = offers[0].id;
  seat.outcome = &options_.arenas[static_cast<size_t>(rank_)].device().vendor.value;
  inner_ = std::make_shared<NcclCommunicator>(seat);
  inner_->make();
  return {};
}

std::string NcclEngine::name() const { return library_ == nullptr ? "NCCL" : library_->name(); }

std::optional<size_t> NcclEngine::find_unsettled() const {
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    const auto word = options_.arenas[rank].device().vendor.value.load(std::memory_order_acquire);
    if (word == static_cast<uint64_t>(NcclOutcome::kUnknown)) return rank;
  }
  return std::nullopt;
}

/// Why there is no inner communicator, if some rank has none.
Status NcclEngine::find_failed() const {
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    const auto word = options_.arenas[rank].device().vendor.value.load(std::memory_order_acquire);
    if (word == static_cast<uint64_t>(NcclOutcome::kMade)) continue;
    const bool own = static_cast<int>(rank) == rank_;
    return Status::unsupported(
        options_.name_of(static_cast<int>(rank)) + ": " +
        (own ? std::string(inner_->why().message())
             : std::string("NCCL's communicator could not be made, and its log says why")));
  }
  return {};
}

// Each rank's own thread says how its part went, after at most two minutes, and the words stay: so
// all ranks see the same. One whose process ends before that fails the communicator.
Status NcclEngine::settle() {
  if (settled_ || inner_ == nullptr) {
    settled_ = true;
    return {};
  }
  const uint64_t slow_ns = deadline_after(options_.slow_ns);
  bool told = false;
  while (const std::optional<size_t> rank = find_unsettled()) {
    if (Status failed = options_.failure(); !failed.ok()) return failed;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (told || monotonic_ns() < slow_ns) continue;
    told = true;
    options_.report(options_.name_of(rank_) + " waits for NCCL's communicator, whose part on " +
                    options_.name_of(static_cast<int>(*rank)) + " is still being made");
  }
  refusal_ = find_failed();
  if (!refusal_.ok()) let_go();
  settled_ = true;
  if (!refusal_.ok()) return {};
  options_.inform(options_.name_of(rank_) + ": the communicator's part of " + name() + " has " +
                  exec::text_of(memory()));
  return {};
}

Status NcclEngine::put(const exec::StreamedCall& call) {
  return inner_->call(
      schedule::name_of(call.described.collective),
      [&](drivers::nccl::NcclComm comm) {
        return put_by_nccl(library_->call, call, rank_, ranks_, comm);
      },
      [&] { return failure(call.call.what, call.call.deadline_ns); });
}

// While NCCL connects its ranks.
Status NcclEngine::failure(const char* what, uint64_t deadline_ns) const {
  Status failed = options_.failure();
  if (!failed.ok() || monotonic_ns() < deadline_ns) return failed;
  return Status::timeout(std::string(what) + " on device memory on " + options_.name_of(rank_) +
                         " passed its deadline while NCCL connected its ranks");
}

Status NcclEngine::put_level(const LevelWork& work, drivers::cuda::CUstream stream) {
  if (inner_ == nullptr) return Status::internal_error("this rank has no NCCL for a level call");
  return inner_->call(
      "a call within the host",
      [&](drivers::nccl::NcclComm comm) {
        return put_level_by_nccl(library_->call, work, {comm, rank_, ranks_}, stream);
      },
      [&] { return failure("a call within the host", work.deadline_ns); });
}

Result<std::vector<uint64_t>> NcclEngine::put(const exec::StreamedCall& call, uint64_t place) {
  auto* const stream = static_cast<drivers::cuda::CUstream>(call.where.stream);
  const uint64_t arrived = ++*words_.progress;
  drivers::cuda::MemoryOps before, behind;
  before.write_64(words_.counter, arrived);
  behind.write_64(words_.finished, place);
  if (Status s = before.submit(cuda_, stream); !s.ok()) return s;
  if (Status s = put(call); !s.ok()) return s;
  if (Status s = behind.submit(cuda_, stream); !s.ok()) return s;
  std::vector<uint64_t> awaited(static_cast<size_t>(ranks_), arrived);
  awaited[static_cast<size_t>(rank_)] = 0;
  return awaited;
}

Status NcclEngine::capture(const exec::StreamedCall& call) { return put(call); }

std::optional<streams::DeviceEngine::EngineTrouble> NcclEngine::look() {
  if (!settled_) return std::nullopt;
  Status found = inner_->look();
  if (found.ok()) return std::nullopt;
  return EngineTrouble{std::move(found), {rank_, -1}};
}

void NcclEngine::let_go() {
  if (inner_ != nullptr) inner_->abort();
}

void NcclEngine::leave() {
  let_go();
  if (inner_ != nullptr) inner_->forget();
}

}  // namespace tutti::engines::cuda
