#include "src/codecs/measured.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/clock.h"
#include "src/base/words.h"

namespace tutti::codecs {
namespace {

constexpr uint64_t kPsPerNs = 1000;
constexpr uint64_t kMostPs = 1'000'000'000;  // a millisecond a value: nothing real is above

uint64_t whole_ps(double ns) {
  return static_cast<uint64_t>(std::clamp(std::round(ns * kPsPerNs), 1.0, double{kMostPs}));
}

double in_ns(uint64_t ps) { return static_cast<double>(ps) / kPsPerNs; }

/// The middle one of an odd number, the lower of two middle ones.
double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

const MeasuredCodec* find(std::span<const MeasuredCodec> measured, std::string_view codec) {
  const auto found = std::ranges::find(measured, codec, &MeasuredCodec::codec);
  return found == measured.end() ? nullptr : &*found;
}

template <class Work>
double best_ns(uint64_t values, const Work& work) {
  constexpr int kTimes = 4;  // the first one touches the memory
  uint64_t best = std::numeric_limits<uint64_t>::max();
  for (int time = 0; time < kTimes; ++time) {
    const uint64_t start_ns = monotonic_ns();
    work();
    best = std::min(best, monotonic_ns() - start_ns);
  }
  return in_ns(whole_ps(static_cast<double>(best) / static_cast<double>(values)));
}

}  // namespace

CodecTimes measure(const Codec& codec) {
  constexpr uint64_t kValues = 256 << 10;
  std::vector<float> values(kValues), decoded(kValues);
  for (uint64_t i = 0; i < kValues; ++i) {
    values[i] = static_cast<float>(i * 2654435761 % 1024) / 512 - 1;
  }
  std::vector<std::byte> encoded(codec.family->bytes(codec.numbers, kValues));
  const CodecKernels kernels = codec.family->kernels();
  const DecodeKernel decode = kernels.decode[static_cast<int>(Sink::kStore)];
  CodecTimes times{};
  times.encode_ns =
      best_ns(kValues, [&] { kernels.encode(codec.numbers, values, encoded.data()); });
  times.decode_ns = best_ns(kValues, [&] { (void)decode(codec.numbers, encoded.data(), decoded); });
  return times;
}

std::vector<MeasuredCodec> measure(const WireOption& option) {
  std::vector<MeasuredCodec> measured;
  for (const LevelCodec& level : option.levels) {
    const std::string text = codec_text(level.codec);
    if (find(measured, text) == nullptr) measured.push_back({text, measure(level.codec)});
  }
  return measured;
}

std::string to_text(std::span<const MeasuredCodec> measured) {
  std::string text;
  for (const MeasuredCodec& one : measured) {
    text += (text.empty() ? "" : " ") + one.codec + " " +
            std::to_string(whole_ps(one.times.encode_ns)) + " " +
            std::to_string(whole_ps(one.times.decode_ns));
  }
  return text;
}

std::vector<MeasuredCodec> read_measured(std::string_view text) {
  constexpr size_t kWords = 3;
  if (text.empty()) return {};
  const std::vector<std::string_view> words = split(text, ' ');
  std::vector<MeasuredCodec> measured;
  for (size_t i = 0; i + kWords <= words.size(); i += kWords) {
    const auto encode_ps = parse_integer<uint64_t>(words[i + 1]);
    const auto decode_ps = parse_integer<uint64_t>(words[i + 2]);
    const bool are_known = encode_ps && decode_ps && *encode_ps > 0 && *decode_ps > 0;
    if (!are_known || std::max(*encode_ps, *decode_ps) > kMostPs) return {};
    measured.push_back({std::string(words[i]), {in_ns(*encode_ps), in_ns(*decode_ps)}});
  }
  return measured;
}

std::vector<MeasuredCodec> agree(std::span<const std::vector<MeasuredCodec>> of_ranks) {
  std::vector<MeasuredCodec> agreed;
  if (of_ranks.empty()) return agreed;
  for (const MeasuredCodec& mine : of_ranks.front()) {
    std::vector<double> encode_ns, decode_ns;
    for (const std::vector<MeasuredCodec>& measured : of_ranks) {
      const MeasuredCodec* const its = find(measured, mine.codec);
      if (its == nullptr) break;
      encode_ns.push_back(its->times.encode_ns);
      decode_ns.push_back(its->times.decode_ns);
    }
    if (encode_ns.size() != of_ranks.size()) continue;
    agreed.push_back({mine.codec, {median_of(encode_ns), median_of(decode_ns)}});
  }
  return agreed;
}

CodecTimes times_of(const Codec& codec, std::span<const MeasuredCodec> measured) {
  const MeasuredCodec* const found = find(measured, codec_text(codec));
  return found == nullptr ? codec.family->times : found->times;
}

}  // namespace tutti::codecs
