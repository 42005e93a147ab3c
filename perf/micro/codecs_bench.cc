// How fast codecs are: bytes of fp32 values encoded, decoded, and decoded and added in a second, by
// one thread. Smaller arrays stay in the caches.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "tutti/codecs.h"

namespace {

enum class Work { kEncode, kDecode, kDecodeAdd, kFeedback };

void bench_codec(benchmark::State& state, const tuttiCodec_t& codec, Work work) {
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(float);
  std::vector<float> values(count), target(count);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  size_t bytes = 0;
  tuttiCodecBytes(&codec, count, &bytes);
  std::vector<std::byte> encoded(bytes);
  tuttiCodecEncode(&codec, values.data(), count, encoded.data(), TUTTI_CODEC_REFUSE);
  const tuttiCodecFeedback_t feedback{sizeof feedback, target.data(), count, 0.9f, 0};
  for (auto _ : state) {
    tuttiResult_t result = tuttiSuccess;
    switch (work) {
      case Work::kEncode:
        result = tuttiCodecEncode(&codec, values.data(), count, encoded.data(), TUTTI_CODEC_REFUSE);
        break;
      case Work::kDecode:
        result = tuttiCodecDecode(&codec, encoded.data(), count, target.data());
        break;
      case Work::kDecodeAdd:
        result = tuttiCodecDecodeAdd(&codec, encoded.data(), count, target.data());
        break;
      case Work::kFeedback:
        result = tuttiCodecEncodeFeedback(&codec, values.data(), count, &feedback, encoded.data());
        break;
    }
    if (result != tuttiSuccess) state.SkipWithError(tuttiGetLastError(nullptr));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * count * sizeof(float)));
}

// Runs before main, as the macros of the library do.
const bool registered = [] {
  tuttiCodec_t codec;
  for (int i = 0; tuttiCodecList(i, &codec) == tuttiSuccess; ++i) {
    char text[64];
    tuttiCodecText(&codec, text, sizeof text);
    for (const auto& [name, work] : {std::pair{"encode", Work::kEncode},
                                     {"decode", Work::kDecode},
                                     {"decode_add", Work::kDecodeAdd},
                                     {"feedback", Work::kFeedback}}) {
      benchmark::RegisterBenchmark((std::string(text) + "/" + name).c_str(), bench_codec, codec,
                                   work)
          ->Arg(256 << 10)
          ->Arg(64 << 20);
    }
  }
  return true;
}();

}  // namespace
