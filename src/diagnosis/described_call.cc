#include "src/diagnosis/described_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/base/prng.h"
#include "src/base/setting_values.h"

namespace tutti::diagnosis {
namespace {

using schedule::traits_of;

constexpr uint64_t kHasCounts = 1, kInPlace = 2, kDeterministic = 4;
constexpr int kTypeAt = 8, kOpAt = 16, kFlagsAt = 24, kEngineAt = 28, kRootAt = 32, kModelAt = 32;
constexpr uint64_t kEngineMask = 15;
static_assert(static_cast<uint64_t>(EngineWish::kNoNccl) <= kEngineMask);

/// The fields in which two calls may differ, in the order in which they are compared.
enum Field : uint8_t {
  kCount,
  kCounts,
  kType,
  kOp,
  kRoot,
  kWire,
  kEngine,
  kModel,
  kPlacement,
  kAlgorithm,
  kPlace
};
constexpr const char* kFieldNames[] = {
    "count", "counts",    "type",      "operation",        "root", "wire", "engine",
    "model", "placement", "algorithm", "registered memory"};

bool have_names(const DescribedCall& one, const DescribedCall& other) {
  return !one.algorithm_name().empty() && !other.algorithm_name().empty();
}

std::vector<Field> differences(const DescribedCall& one, const DescribedCall& other) {
  std::vector<Field> found;
  const auto look = [&](bool differs, Field field) {
    if (differs) found.push_back(field);
  };
  const schedule::Traits& traits = traits_of(one.collective);
  look(one.count != other.count, kCount);
  look(one.counts != other.counts && have_names(one, other), kCounts);
  look(one.type != other.type, kType);
  look(traits.reduces && one.op != other.op, kOp);
  look(traits.rooted() && one.root != other.root, kRoot);
  look(one.wire != other.wire, kWire);
  if (found.empty()) look(one.engine != other.engine, kEngine);
  // Another argument, or another model, may itself be the reason for another algorithm.
  if (found.empty() && have_names(one, other)) look(one.model != other.model, kModel);
  if (found.empty() && have_names(one, other)) {
    look(one.algorithm != other.algorithm || one.deterministic != other.deterministic, kAlgorithm);
  }
  if (found.empty()) look(one.place != other.place, kPlace);
  if (found.empty()) look(one.in_place != other.in_place, kPlacement);
  return found;
}

std::string place_text(uint64_t place) {
  if (place == 0) return ", not in registered memory";
  constexpr int kBits = DescribedCall::kOffsetBits;
  return ", at byte " + std::to_string(place & ((uint64_t{1} << kBits) - 1)) +
         " of registered device memory " + std::to_string(place >> kBits);
}

std::string text_of(const DescribedCall& call, const std::vector<Field>& differ) {
  const schedule::Traits& traits = traits_of(call.collective);
  std::string text = std::string(traits.name) + (call.has_counts ? "_v" : "");
  if (call.collective == schedule::Collective::kBarrier) return text;
  if (!call.has_counts) text += " of " + std::to_string(call.count);
  text += std::string(call.has_counts ? " of " : " ") + types::name_of(call.type);
  if (traits.reduces) text += std::string(" ") + types::name_of(call.op);
  if (traits.rooted()) text += ", root " + std::to_string(call.root);
  const auto is_among = [&](Field field) { return std::ranges::count(differ, field) > 0; };
  if (call.has_counts && is_among(kCount)) {
    text += ", the longest share " + std::to_string(call.count);
  }
  if (is_among(kWire)) {
    text += call.wire == 0 ? ", no wire option" : fmt::format(", wire option {:05x}", call.wire);
  }
  if (is_among(kEngine)) text += ", engine " + std::string(engine_name(call.engine));
  if (is_among(kPlacement)) text += call.in_place ? ", in place" : ", not in place";
  if (is_among(kPlace)) text += place_text(call.place);
  if (is_among(kModel)) text += fmt::format(", model {:08x}", call.model);
  if (is_among(kAlgorithm)) {
    text += ", algorithm " + std::string(call.algorithm_name()) +
            (call.deterministic ? " (deterministic)" : "");
  }
  return text;
}

}  // namespace

void DescribedCall::set_algorithm(std::string_view name) {
  algorithm = {};
  std::copy_n(name.data(), std::min(name.size(), kAlgorithmBytes), algorithm.data());
}

void DescribedCall::set_wire(std::string_view option) {
  uint64_t hash = 0;
  for (const char letter : option) {
    uint64_t state = hash ^ static_cast<uint8_t>(letter);
    hash = splitmix64(state);
  }
  wire = option.empty() ? 0 : static_cast<uint32_t>(hash >> kCountBits | 1);
}

std::string_view DescribedCall::algorithm_name() const {
  return {algorithm.data(), strnlen(algorithm.data(), kAlgorithmBytes)};
}

DescribedWords words_of(const DescribedCall& call) {
  DescribedWords words{};
  const uint64_t flags = (call.has_counts ? kHasCounts : 0) | (call.in_place ? kInPlace : 0) |
                         (call.deterministic ? kDeterministic : 0);
  words[0] = static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.type) << kTypeAt |
             static_cast<uint64_t>(call.op) << kOpAt | flags << kFlagsAt |
             static_cast<uint64_t>(call.engine) << kEngineAt |
             uint64_t{static_cast<uint32_t>(call.root)} << kRootAt;
  words[1] = call.count | uint64_t{call.wire} << DescribedCall::kCountBits;
  words[2] = call.counts | uint64_t{call.model} << kModelAt;
  std::memcpy(&words[3], call.algorithm.data(), DescribedCall::kAlgorithmBytes);
  words[6] = call.place;
  return words;
}

std::optional<DescribedCall> read_call(const DescribedWords& words) {
  const auto byte = [&](int at) { return static_cast<uint8_t>(words[0] >> at); };
  if (byte(0) >= schedule::kCollectives || byte(kTypeAt) >= types::kDataTypes ||
      byte(kOpAt) >= types::kNamedReduceOps) {
    return std::nullopt;
  }
  DescribedCall call;
  call.collective = static_cast<schedule::Collective>(byte(0));
  call.type = static_cast<types::DataType>(byte(kTypeAt));
  call.op = static_cast<types::ReduceOp>(byte(kOpAt));
  call.has_counts = (byte(kFlagsAt) & kHasCounts) != 0;
  call.in_place = (byte(kFlagsAt) & kInPlace) != 0;
  call.deterministic = (byte(kFlagsAt) & kDeterministic) != 0;
  call.engine = static_cast<EngineWish>(words[0] >> kEngineAt & kEngineMask);
  call.root = static_cast<int>(static_cast<uint32_t>(words[0] >> kRootAt));
  call.count = words[1] & ((uint64_t{1} << DescribedCall::kCountBits) - 1);
  call.wire = static_cast<uint32_t>(words[1] >> DescribedCall::kCountBits);
  call.counts = static_cast<uint32_t>(words[2]);
  call.model = static_cast<uint32_t>(words[2] >> kModelAt);
  std::memcpy(call.algorithm.data(), &words[3], DescribedCall::kAlgorithmBytes);
  call.place = words[6];
  return call;
}

std::string text_of(const DescribedCall& call) { return text_of(call, {}); }

std::optional<std::string> compare_text(const std::string& one, const DescribedCall& its,
                                        const std::string& other, const DescribedCall& others) {
  std::vector<Field> differ;
  std::string fields = "collective";
  if (its.collective == others.collective && its.has_counts == others.has_counts) {
    differ = differences(its, others);
    if (differ.empty()) return std::nullopt;
    fields = kFieldNames[differ.front()];
    for (size_t i = 1; i < differ.size(); ++i) fields += std::string(", ") + kFieldNames[differ[i]];
  }
  return one + ": " + text_of(its, differ) + "; " + other + ": " + text_of(others, differ) + ": " +
         fields;
}

void CallLog::begin(uint32_t number, const DescribedCall& call) {
  if (begun_ > 0 && call == last_) return;
  last_ = call;
  Run& run = runs_[++begun_ % kRuns];
  const DescribedWords words = words_of(call);
  // A reader that sees a new word must also see that `first` was set to 0 before it.
  run.first.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < words.size(); ++i) run.words[i].store(words[i], std::memory_order_release);
  run.first.store(uint64_t{number} << 32 | begun_, std::memory_order_release);
}

// The last run of equal calls that began with this number or before.
std::optional<DescribedCall> CallLog::find(const Run* runs, uint32_t number) {
  const Run* found = nullptr;
  uint64_t found_first = 0;
  for (const Run* run = runs; run != runs + kRuns; ++run) {
    const uint64_t first = run->first.load(std::memory_order_acquire);
    const auto later = static_cast<int32_t>(static_cast<uint32_t>(first >> 32) - number);
    const bool newer =
        static_cast<int32_t>(static_cast<uint32_t>(first) - static_cast<uint32_t>(found_first)) > 0;
    if (first == 0 || later > 0 || (found != nullptr && !newer)) continue;
    found = run;
    found_first = first;
  }
  if (found == nullptr) return std::nullopt;
  DescribedWords words;
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = found->words[i].load(std::memory_order_acquire);
  }
  if (found->first.load(std::memory_order_acquire) != found_first) return std::nullopt;
  return read_call(words);
}

}  // namespace tutti::diagnosis
