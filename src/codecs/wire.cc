#include "src/codecs/wire.h"

#include <algorithm>

#include "src/base/words.h"

namespace tutti::codecs {
namespace {

constexpr uint32_t kMostBlock = 65536;
constexpr std::string_view kAlways = "always";

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Result<LevelCodec> parse_entry(std::string_view entry) {
  const size_t colon = entry.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return Status::invalid_argument(quoted(entry) +
                                    " is no level and codec; write for example "
                                    "network:int8_block");
  }
  Result<Codec> codec = parse_codec(entry.substr(colon + 1));
  if (!codec.ok()) return codec.status();
  if (codec.value().numbers.block > kMostBlock) {
    return Status::invalid_argument(quoted(entry) + ": on the wire a block has at most " +
                                    std::to_string(kMostBlock) + " values");
  }
  return LevelCodec{std::string(entry.substr(0, colon)), codec.value()};
}

Status check_against(const LevelCodec& one, const LevelCodec& other) {
  if (one.level == other.level) {
    return Status::invalid_argument("the level " + quoted(one.level) + " has two codecs");
  }
  const uint32_t a = std::max(1u, one.codec.numbers.block);
  const uint32_t b = std::max(1u, other.codec.numbers.block);
  if (std::max(a, b) % std::min(a, b) == 0) return {};
  return Status::invalid_argument("blocks of " + std::to_string(a) + " and " + std::to_string(b) +
                                  " values: the longer one must be a multiple of the shorter");
}

}  // namespace

Result<WireOption> parse_wire(std::string_view text) {
  WireOption option;
  if (text.empty()) return option;
  for (const std::string_view entry : split(text, ',')) {
    if (entry == kAlways) {
      option.always = true;
      continue;
    }
    Result<LevelCodec> level = parse_entry(entry);
    if (!level.ok()) return level.status();
    for (const LevelCodec& other : option.levels) {
      if (Status status = check_against(level.value(), other); !status.ok()) return status;
    }
    option.levels.push_back(std::move(level).value());
  }
  if (option.levels.empty()) {
    return Status::invalid_argument(quoted(text) + " names no level; write for example " +
                                    std::string(kAlways) + ",network:int8_block");
  }
  return option;
}

std::string wire_text(const WireOption& option) {
  std::string text = option.always ? std::string(kAlways) : "";
  for (const LevelCodec& level : option.levels) {
    if (!text.empty()) text += ",";
    text += level.level + ":" + codec_text(level.codec);
  }
  return text;
}

}  // namespace tutti::codecs
