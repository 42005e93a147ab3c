#include "tutti/runtime/outer/one_byte.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/codecs.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

constexpr uint8_t kNoSlope = 0x80;  // the code of log_byte for NaN
// The standard deviation of a sum of four numbers that are uniform in 0 .. 65535.
constexpr float kSpread = 37837.22f;

const tuttiCodec_t& slope_codec() {
  static const tuttiCodec_t codec = [] {
    tuttiCodec_t made;
    expect_success(tuttiCodecParse("log_byte", &made), nullptr, "tuttiCodecParse");
    return made;
  }();
  return codec;
}

uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// One element of a direction, from 64 random bits.
float direction_of(uint64_t bits) {
  const uint64_t sum =
      (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
  return static_cast<float>(static_cast<int64_t>(sum) - 2 * 65535) / kSpread;
}

}  // namespace

void add_direction(std::span<float> params, const DirectionSeed& seed, float factor) {
  Fingerprint print;
  for (const int64_t word :
       {static_cast<int64_t>(seed.seed), seed.iteration, seed.machine, seed.sample}) {
    print.add(word);
  }
  uint64_t counter = print.value();
  for (float& param : params) param += factor * direction_of(mixed(counter += 0x9e3779b97f4a7c15u));
}

uint64_t known_answer() {
  std::vector<float> direction(64, 0.0f);
  add_direction(direction, {1, 2, 3, 4}, 1);
  Fingerprint print;
  add_bits(print, direction);
  for (int code = 0; code < 256; ++code) {
    if (code != kNoSlope) add_bits(print, decode_slope(static_cast<uint8_t>(code)));
  }
  return print.value();
}

uint8_t encode_slope(float slope) {
  uint8_t code = 0;
  const tuttiResult_t result =
      tuttiCodecEncode(&slope_codec(), &slope, 1, &code, TUTTI_CODEC_REFUSE);
  require(result == tuttiSuccess, "a slope is NaN or infinite; leave its sample out of the step");
  return code;
}

float decode_slope(uint8_t code) {
  float slope = 0;
  expect_success(tuttiCodecDecode(&slope_codec(), &code, 1, &slope), nullptr, "tuttiCodecDecode");
  return slope;
}

void replay(std::span<const SlopeMessage> messages, const ReplaySpec& spec,
            std::span<float> params) {
  std::vector<SlopeMessage> ordered(messages.begin(), messages.end());
  const auto key = [](const SlopeMessage& m) { return std::pair(m.machine, m.sample); };
  std::sort(ordered.begin(), ordered.end(),
            [&](const SlopeMessage& a, const SlopeMessage& b) { return key(a) < key(b); });
  for (size_t i = 0; i < ordered.size(); ++i) {
    const SlopeMessage& message = ordered[i];
    require(message.iteration == spec.iteration, "a message is of iteration ", message.iteration,
            ", this is ", spec.iteration, "; apply each in its own iteration");
    require(message.machine >= 0 && message.machine < spec.machines && message.sample >= 0,
            "a message is of machine ", message.machine, ", sample ", message.sample,
            "; there are machines 0 to ", spec.machines - 1);
    require(i == 0 || key(ordered[i - 1]) != key(message), "machine ", message.machine, ", sample ",
            message.sample, " occurs twice; apply each message once");
    require(message.code != kNoSlope, "the message of machine ", message.machine, ", sample ",
            message.sample, " holds no number; leave it out");
  }
  for (const SlopeMessage& message : ordered) {
    const float factor =
        -spec.rate * decode_slope(message.code) / static_cast<float>(ordered.size());
    add_direction(params, {spec.seed, message.iteration, message.machine, message.sample}, factor);
  }
}

uint64_t hash_of(std::span<const float> params) {
  Fingerprint print;
  add_bits(print, params);
  return print.value();
}

class OneByte::Impl {
 public:
  Impl(const OneByteSpec& spec, Loss loss) : spec_(spec), loss_(std::move(loss)) {
    require(spec.samples >= 1, spec.samples, " samples; give 1 or more");
    check_rate(spec.rate, "rate");
    check_rate(spec.epsilon, "epsilon");
    require(spec.check_every >= 1, "a check every ", spec.check_every, " steps; give 1 or more");
    require(static_cast<bool>(loss_), "there is no loss; give a function");
  }

  void join(const OuterGroup& group, int ranks, int rank) {
    group_ = group;
    ranks_ = ranks;
    rank_ = rank;
    agree(group.comm, known_answer(), "the generator of directions");
    Fingerprint plan;
    plan.add(static_cast<int64_t>(spec_.seed));
    plan.add(spec_.samples);
    plan.add(spec_.check_every);
    plan.add(group.epoch);
    add_bits(plan, spec_.rate);
    agree(group.comm, plan.value(), "the plan of Just One Byte (its seed and epoch, too)");
  }

  int64_t step(int64_t step, std::span<float> params, bool commit, OuterReport& report) {
    std::vector<uint8_t> own, all(at(ranks_) * at(spec_.samples));
    for (int s = 0; s < spec_.samples; ++s) {
      own.push_back(commit ? code_of(step, s, params) : kNoSlope);
    }
    report.launched = 0;
    expect_success(tuttiAllGather(own.data(), all.data(), own.size(), tuttiUint8, group_.comm,
                                  tuttiBlocking()),
                   group_.comm, "the exchange of slopes");
    std::vector<SlopeMessage> messages;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto machine = static_cast<int64_t>(i) / spec_.samples;
      if (all[i] == kNoSlope) {
        report.skipped +=
            words(report.skipped.empty() ? "" : ", ", "rank ", machine, " had no slope for sample ",
                  static_cast<int64_t>(i) % spec_.samples);
        continue;
      }
      messages.push_back({step, machine, static_cast<int64_t>(i) % spec_.samples, all[i]});
    }
    replay(messages, {spec_.seed, step, ranks_, spec_.rate}, params);
    if (!messages.empty()) report.applied = 0;
    if (step % spec_.check_every == 0) {
      agree(group_.comm, hash_of(params), "the hash of the parameters");
    }
    return (ranks_ - 1) * static_cast<int64_t>(own.size());
  }

 private:
  uint8_t code_of(int64_t step, int sample, std::span<const float> params) {
    const DirectionSeed seed{spec_.seed, step, rank_, sample};
    moved_.assign(params.begin(), params.end());
    add_direction(moved_, seed, spec_.epsilon);
    const double above = loss_(moved_, step, sample);
    moved_.assign(params.begin(), params.end());
    add_direction(moved_, seed, -spec_.epsilon);
    const double below = loss_(moved_, step, sample);
    const auto slope = static_cast<float>((above - below) / (2 * double{spec_.epsilon}));
    return slope - slope == 0 ? encode_slope(slope) : kNoSlope;
  }

  OneByteSpec spec_;
  Loss loss_;
  OuterGroup group_;
  int ranks_ = 0;
  int rank_ = 0;
  std::vector<float> moved_;
};

OneByte::OneByte(OuterGroup group, std::span<const float> params, const OneByteSpec& spec,
                 Loss loss)
    : OuterOptimizer(group, std::ssize(params)),
      impl_(std::make_unique<Impl>(spec, std::move(loss))) {
  impl_->join(group, ranks(), rank());
  agree(group.comm, hash_of(params), "the hash of the parameters");
}
OneByte::~OneByte() = default;

OuterReport OneByte::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  count_bytes(impl_->step(step, params, commit, report));
  return report;
}

OuterReport OneByte::take_rest(std::span<float> /*params*/) { return {}; }

void OneByte::join_group() { impl_->join(group(), ranks(), rank()); }

}  // namespace tutti::runtime
