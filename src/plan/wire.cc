#include "src/plan/wire.h"

#include <algorithm>

namespace tutti::plan {

LevelEncodings wire_of(const codecs::WireOption& option, const group::GroupView& group) {
  LevelEncodings wire;
  wire.levels.assign(group.levels(), 0);
  for (size_t level = 0; level < group.levels(); ++level) {
    const auto entry =
        std::ranges::find(option.levels, group.level(level).name, &codecs::LevelCodec::level);
    if (entry == option.levels.end() || group.level(level).reach.map) continue;
    const auto known = std::ranges::find(wire.codecs, entry->codec);
    wire.levels[level] = static_cast<uint8_t>(known - wire.codecs.begin() + 1);
    if (known == wire.codecs.end()) wire.codecs.push_back(entry->codec);
  }
  return wire;
}

// Sums are accumulated in fp32, so double has none: it would lose more than the message does.
std::optional<codecs::Codec> codec_of(types::DataType type) {
  struct Form {
    types::DataType type;
    std::string_view codec;
  };
  constexpr Form kForms[] = {{types::DataType::kFloat32, "none"},
                             {types::DataType::kFloat16, "fp16"},
                             {types::DataType::kBfloat16, "bf16"}};
  for (const Form& form : kForms) {
    if (form.type == type) return codecs::Codec{codecs::find_codec(form.codec), {}};
  }
  return std::nullopt;
}

}  // namespace tutti::plan
