#include "src/select/wire_prices.h"

#include <algorithm>

namespace tutti::select {

std::vector<WirePrice> wire_prices(const codecs::WireOption& option,
                                   std::span<const PricedLevel> levels, uint32_t element_bytes,
                                   std::span<const codecs::MeasuredCodec> measured) {
  constexpr uint64_t kMany = 1 << 20;  // of values, so that a short last block counts for nothing
  std::vector<WirePrice> prices(levels.size());
  bool any = false;
  for (size_t i = 0; i < levels.size(); ++i) {
    const auto entry = std::ranges::find(option.levels, levels[i].name, &codecs::LevelCodec::level);
    if (entry == option.levels.end() || levels[i].maps) continue;
    const codecs::CodecFamily& family = *entry->codec.family;
    const double elements = element_bytes;
    prices[i].share =
        static_cast<double>(family.bytes(entry->codec.numbers, kMany)) / (kMany * elements);
    const codecs::CodecTimes times = codecs::times_of(entry->codec, measured);
    prices[i].ns_per_byte = (times.encode_ns + 2 * times.decode_ns) / elements;
    any = true;
  }
  return any ? prices : std::vector<WirePrice>();
}

}  // namespace tutti::select
