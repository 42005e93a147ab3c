#include "tutti/runtime/exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "src/runtime/epoch.h"
#include "src/runtime/fingerprint.h"
#include "src/runtime/halves.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

std::vector<int64_t> starts_of(std::span<const int64_t> sizes) {
  std::vector<int64_t> starts;
  int64_t next = 0;
  for (const int64_t size : sizes) {
    starts.push_back(next);
    next += size;
  }
  return starts;
}

/// Whether every rank hands its whole share to every rank, in rank order.
bool gathers(const Resharding& resharding) {
  const std::vector<int64_t> starts = starts_of(resharding.source_sizes);
  const int64_t all = starts.empty() ? 0 : starts.back() + resharding.source_sizes.back();
  for (const int64_t size : resharding.target_sizes) {
    if (size != all) return false;
  }
  int64_t parcels = 0;
  for (const int64_t size : resharding.source_sizes) parcels += size > 0 ? resharding.ranks : 0;
  if (std::ssize(resharding.parcels) != parcels) return false;
  return std::all_of(resharding.parcels.begin(), resharding.parcels.end(), [&](const Parcel& p) {
    return p.source_offset == 0 && p.length == resharding.source_sizes[at(p.source)] &&
           p.target_offset == starts[at(p.source)];
  });
}

bool suits_all_to_all(const Resharding& resharding) {
  const int64_t n = resharding.ranks;
  std::vector<bool> seen(at(n * n), false);
  int64_t pairs = 0;
  for (const Parcel& p : resharding.parcels) {
    const size_t pair = at(p.source * n + p.target);
    if (seen[pair]) return false;
    seen[pair] = true;
    pairs += p.source != p.target;
  }
  return n > 1 && 2 * pairs >= n * (n - 1);
}

/// Elements that arrive twice need a reduction: nothing may be lost silently.
void check_arrivals(const Resharding& resharding) {
  std::vector<Parcel> sorted = resharding.parcels;
  std::sort(sorted.begin(), sorted.end(), [](const Parcel& a, const Parcel& b) {
    return a.target != b.target ? a.target < b.target : a.target_offset < b.target_offset;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const Parcel &a = sorted[i - 1], &b = sorted[i];
    require(a.target != b.target || a.target_offset + a.length <= b.target_offset, "rank ",
            b.target, " gets element ", b.target_offset, " from ranks ", a.source, " and ",
            b.source, "; pass a reduction, or reshard to distinct places");
  }
}

template <class Number>
class SumOf final : public Reduction {
 public:
  explicit SumOf(tuttiDataType_t type) : type_(type) {}
  void fold(void* target, const void* arrived, int64_t elements) const override {
    auto* to = static_cast<Number*>(target);
    const auto* from = static_cast<const Number*>(arrived);
    for (int64_t i = 0; i < elements; ++i) to[i] += from[i];
  }
  void clear(void* target, int64_t elements) const override {
    std::memset(target, 0, at(elements) * sizeof(Number));
  }
  Bytes element() const override { return Bytes(sizeof(Number)); }
  const tuttiDataType_t* summed_type() const override { return &type_; }

 private:
  tuttiDataType_t type_;
};

/// In float, and rounded once.
class SumOfHalves final : public Reduction {
 public:
  explicit SumOfHalves(tuttiDataType_t type) : halves_(type) {}
  void fold(void* accumulators, const void* arrived, int64_t elements) const override {
    halves_.add(arrived, {static_cast<float*>(accumulators), at(elements)});
  }
  void clear(void* accumulators, int64_t elements) const override {
    std::memset(accumulators, 0, at(elements) * sizeof(float));
  }
  void round(void* target, const void* accumulators, int64_t elements) const override {
    halves_.write({static_cast<const float*>(accumulators), at(elements)}, target);
  }
  Bytes element() const override { return Halves::kBytes; }
  Bytes accumulator() const override { return Bytes(sizeof(float)); }

 private:
  Halves halves_;
};

}  // namespace

std::unique_ptr<Reduction> sum_of(tuttiDataType_t type) {
  if (type == tuttiFloat32) return std::make_unique<SumOf<float>>(type);
  if (type == tuttiFloat64) return std::make_unique<SumOf<double>>(type);
  require(Halves::has(type), "type ", static_cast<int>(type),
          " has no sum in the runtime; use tuttiFloat32, tuttiFloat64, tuttiBfloat16 or "
          "tuttiFloat16");
  return std::make_unique<SumOfHalves>(type);
}

Exchange::Exchange(Resharding resharding, Bytes element, const Reduction* reduction)
    : resharding_(std::move(resharding)), element_(element), reduction_(reduction) {
  require(element.value >= 1, "an element has ", element.value, " bytes; give 1 or more");
  require(reduction_ == nullptr || reduction_->element() == element_, "an element has ",
          element_.value, " bytes and the reduction folds elements of ",
          reduction_ == nullptr ? 0 : reduction_->element().value,
          "; give both the same size, that of the type");
  validate(resharding_);
  for (const int64_t size : resharding_.source_sizes) {
    checked_product(size, element.value, "a local buffer in bytes");
  }
  if (reduction_ == nullptr) check_arrivals(resharding_);
  const bool sums = reduction_ != nullptr && reduction_->summed_type() != nullptr;
  if (reduction_ == nullptr && gathers(resharding_)) {
    way_ = ExchangeWay::kAllGather;
  } else if (sums && gathers(reverse(resharding_))) {
    way_ = ExchangeWay::kReduceScatter;
  } else if (reduction_ == nullptr && suits_all_to_all(resharding_)) {
    way_ = ExchangeWay::kAllToAll;
  } else {
    rounds_ = congestion_free(resharding_.parcels, resharding_.ranks);
  }
}

void Exchange::check_buffers(int rank, const void* source, const void* target) const {
  const int64_t source_size = resharding_.source_sizes[at(rank)];
  const int64_t target_size = resharding_.target_sizes[at(rank)];
  require(source != nullptr || source_size == 0, "rank ", rank, " has no source buffer for ",
          source_size, " elements");
  require(target != nullptr || target_size == 0, "rank ", rank, " has no target buffer for ",
          target_size, " elements");
  // The collectives check their own buffers: some of them run in place.
  if (way_ == ExchangeWay::kAllGather || way_ == ExchangeWay::kReduceScatter) return;
  const auto* s = static_cast<const std::byte*>(source);
  const auto* t = static_cast<const std::byte*>(target);
  require(s + bytes(source_size) <= t || t + bytes(target_size) <= s, "source and target of rank ",
          rank, " overlap; give the target memory of its own");
}

void Exchange::agree_once(tuttiComm_t comm) {
  const uint32_t epoch = epoch_of(comm);
  if (agreed_ == comm && agreed_epoch_ == epoch) return;
  Fingerprint print;
  print.add(static_cast<int64_t>(fingerprint(resharding_)));
  print.add(element_.value);
  const bool sums = reduction_ != nullptr && reduction_->summed_type() != nullptr;
  print.add(reduction_ == nullptr ? -2 : sums ? *reduction_->summed_type() : -1);
  agree(comm, print.value(), "the exchange");
  agreed_ = comm;
  agreed_epoch_ = epoch;
}

void Exchange::run(tuttiComm_t comm, const void* source, void* target, tuttiStream_t stream) {
  Place place{comm, stream};
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &place.rank), "tuttiCommUserRank");
  require(ranks == resharding_.ranks, "the resharding is for ", resharding_.ranks,
          " ranks and the communicator has ", ranks);
  require(
      way_ != ExchangeWay::kRounds || reduction_ == nullptr || stream.kind == tuttiStreamBlocking,
      "a reduction in rounds is computed by the host and runs on the BLOCKING stream alone; "
      "pass host memory on it, or reshard to one share a rank, which the library sums");
  check_buffers(place.rank, source, target);
  agree_once(comm);
  ++counters_.runs;
  for (const Parcel& p : resharding_.parcels) {
    if (p.source == place.rank && p.target != place.rank) counters_.sent += element_ * p.length;
  }
  switch (way_) {
    case ExchangeWay::kAllGather:
      return run_gather(place, source, target);
    case ExchangeWay::kReduceScatter:
      return run_scatter(place, source, target);
    case ExchangeWay::kAllToAll:
      return run_all_to_all(place, source, target);
    case ExchangeWay::kRounds:
      return run_rounds(place, static_cast<const std::byte*>(source),
                        static_cast<std::byte*>(target));
  }
}

void Exchange::run_gather(const Place& place, const void* source, void* target) {
  ++counters_.calls;
  const std::vector<int64_t>& sizes = resharding_.source_sizes;
  const std::vector<int64_t> starts = starts_of(sizes);
  // One buffer in all: this rank's share lies where it will be.
  const void* own =
      source == target ? static_cast<std::byte*>(target) + bytes(starts[at(place.rank)]) : source;
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end()) {
    return expect_success(
        tuttiAllGather(own, target, bytes(sizes[0]), tuttiUint8, place.comm, place.stream),
        "tuttiAllGather");
  }
  std::vector<size_t> counts;
  for (const int64_t size : sizes) counts.push_back(bytes(size));
  expect_success(tuttiAllGatherV(own, counts[at(place.rank)], target, counts.data(), nullptr,
                                 tuttiUint8, place.comm, place.stream),
                 "tuttiAllGatherV");
}

void Exchange::run_scatter(const Place& place, const void* source, void* target) {
  ++counters_.calls;
  const std::vector<int64_t>& sizes = resharding_.target_sizes;
  const std::vector<int64_t> starts = starts_of(sizes);
  void* own =
      source == target ? static_cast<std::byte*>(target) + bytes(starts[at(place.rank)]) : target;
  const tuttiDataType_t type = *reduction_->summed_type();
  std::vector<size_t> counts(sizes.begin(), sizes.end());
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end()) {
    return expect_success(
        tuttiReduceScatter(source, own, counts[0], type, tuttiSum, place.comm, place.stream),
        "tuttiReduceScatter");
  }
  expect_success(
      tuttiReduceScatterV(source, own, counts.data(), type, tuttiSum, place.comm, place.stream),
      "tuttiReduceScatterV");
}

void Exchange::run_all_to_all(const Place& place, const void* source, void* target) {
  ++counters_.calls;
  std::vector<size_t> vectors[4];
  for (std::vector<size_t>& vector : vectors) vector.resize(at(resharding_.ranks), 0);
  for (const Parcel& p : resharding_.parcels) {
    if (p.source == place.rank) {
      vectors[0][at(p.target)] = bytes(p.length);
      vectors[1][at(p.target)] = bytes(p.source_offset);
    }
    if (p.target == place.rank) {
      vectors[2][at(p.source)] = bytes(p.length);
      vectors[3][at(p.source)] = bytes(p.target_offset);
    }
  }
  expect_success(
      tuttiAllToAllV(source, vectors[0].data(), vectors[1].data(), target, vectors[2].data(),
                     vectors[3].data(), tuttiUint8, place.comm, place.stream),
      "tuttiAllToAllV");
}

/// Parcels that stay on the rank, as one round of messages to itself: the library copies them on
/// any stream, and refuses memory that the stream cannot reach.
std::vector<int> Exchange::staying(int rank) const {
  std::vector<int> parcels;
  for (size_t i = 0; i < resharding_.parcels.size(); ++i) {
    const Parcel& p = resharding_.parcels[i];
    if (p.source == rank && p.target == rank) parcels.push_back(static_cast<int>(i));
  }
  return parcels;
}

void Exchange::place_arrivals(int rank) {
  int64_t next = 0, from_others = 0;
  scratch_offset_.assign(resharding_.parcels.size(), -1);
  for (size_t i = 0; i < resharding_.parcels.size(); ++i) {
    const Parcel& p = resharding_.parcels[i];
    if (p.target != rank) continue;
    scratch_offset_[i] = next;
    next += p.length;
    if (p.source != rank) from_others += p.length;
  }
  scratch_.resize(bytes(next));
  counters_.reduction_scratch = element_ * from_others;
  if (reduction_->accumulator() == element_) return;
  const int64_t size = resharding_.target_sizes[at(rank)];
  accumulators_.resize(at(checked_product(size, reduction_->accumulator().value,
                                          "the accumulators of a reduction in bytes")));
  counters_.reduction_scratch += reduction_->accumulator() * size;
}

/// Ascending source rank at every place, whatever the order of arrival.
void Exchange::fold_arrivals(int rank, std::byte* target) {
  std::vector<size_t> own;
  for (size_t i = 0; i < resharding_.parcels.size(); ++i) {
    if (resharding_.parcels[i].target == rank) own.push_back(i);
  }
  std::stable_sort(own.begin(), own.end(), [&](size_t a, size_t b) {
    return resharding_.parcels[a].source < resharding_.parcels[b].source;
  });
  const int64_t size = resharding_.target_sizes[at(rank)], width = reduction_->accumulator().value;
  std::byte* const to = accumulators_.empty() ? target : accumulators_.data();
  reduction_->clear(to, size);
  for (const size_t i : own) {
    const Parcel& p = resharding_.parcels[i];
    reduction_->fold(to + p.target_offset * width, scratch_.data() + bytes(scratch_offset_[i]),
                     p.length);
  }
  if (to != target) reduction_->round(target, to, size);
}

void Exchange::run_round(const Place& place, std::span<const int> round, const std::byte* source,
                         std::byte* target) {
  expect_success(tuttiGroupStart(), "tuttiGroupStart");
  for (const int i : round) {
    const Parcel& p = resharding_.parcels[at(i)];
    tuttiResult_t result = tuttiSuccess;
    if (p.source == place.rank) {
      result = tuttiSend(source + bytes(p.source_offset), bytes(p.length), tuttiUint8, p.target,
                         place.comm, place.stream);
    }
    if (p.target == place.rank && result == tuttiSuccess) {
      std::byte* to = reduction_ != nullptr ? scratch_.data() + bytes(scratch_offset_[at(i)])
                                            : target + bytes(p.target_offset);
      result = tuttiRecv(to, bytes(p.length), tuttiUint8, p.source, place.comm, place.stream);
    }
    if (result != tuttiSuccess) tuttiGroupDiscard();
    expect_success(result, "a message of a round");
  }
  expect_success(tuttiGroupEnd(), "a round of messages");
}

void Exchange::run_rounds(const Place& place, const std::byte* source, std::byte* target) {
  if (reduction_ != nullptr) place_arrivals(place.rank);
  const std::vector<int> kept = staying(place.rank);
  if (!kept.empty()) run_round(place, kept, source, target);
  for (const int i : kept) {
    if (reduction_ == nullptr) counters_.copied += element_ * resharding_.parcels[at(i)].length;
  }
  for (const std::vector<int>& round : rounds_) {
    std::vector<int> own;
    for (const int i : round) {
      const Parcel& p = resharding_.parcels[at(i)];
      if (p.source == place.rank || p.target == place.rank) own.push_back(i);
    }
    if (own.empty()) continue;
    ++counters_.calls;
    run_round(place, own, source, target);
  }
  if (reduction_ != nullptr) fold_arrivals(place.rank, target);
}

uint64_t fingerprint(const Resharding& resharding) {
  Fingerprint print;
  print.add(resharding.ranks);
  for (const int64_t size : resharding.source_sizes) print.add(size);
  for (const int64_t size : resharding.target_sizes) print.add(size);
  for (const Parcel& p : resharding.parcels) {
    for (const int64_t word :
         {int64_t{p.source}, int64_t{p.target}, p.source_offset, p.target_offset, p.length}) {
      print.add(word);
    }
  }
  return print.value();
}

void agree(tuttiComm_t comm, uint64_t fingerprint, const char* what) {
  int ranks = 0, rank = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &rank), comm, "tuttiCommUserRank");
  std::vector<uint64_t> all(at(ranks));
  expect_success(tuttiAllGather(&fingerprint, all.data(), 1, tuttiUint64, comm, tuttiBlocking()),
                 comm, "tuttiAllGather");
  std::string others;
  for (int r = 0; r < ranks; ++r) {
    if (all[at(r)] != all[0]) others += (others.empty() ? "" : ", ") + std::to_string(r);
  }
  if (others.empty()) return;
  throw Error(ErrorKind::kRanksDiffer,
              words(what, " of rank(s) ", std::string_view(others),
                    " is another than that of rank 0", "; give all ranks the same inputs"),
              tuttiInvalidUsage);
}

}  // namespace tutti::runtime
