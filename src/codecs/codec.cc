#include "src/codecs/codec.h"

#include <array>
#include <string>
#include <vector>

#include "src/base/words.h"

namespace tutti::codecs {

#define TUTTI_CODEC(family) CodecFamily family();
#include "src/codecs/codecs.inc"
#undef TUTTI_CODEC

namespace {

constexpr uint32_t kMostBlock = 1u << 20;

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const CodecFamily& family : codec_families()) all.push_back(family.name);
  return all;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

uint32_t* number_at(CodecNumbers& numbers, size_t place) {
  return std::array{&numbers.block, &numbers.kept, &numbers.bits}[place];
}

}  // namespace

std::span<const CodecFamily> codec_families() {
  static const std::vector<CodecFamily> all = {
#define TUTTI_CODEC(family) family(),
#include "src/codecs/codecs.inc"
#undef TUTTI_CODEC
  };
  return all;
}

const CodecFamily* find_codec(std::string_view name) {
  for (const CodecFamily& family : codec_families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

Result<Codec> parse_codec(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ':');
  const CodecFamily* family = find_codec(words[0]);
  if (family == nullptr) {
    return Status::invalid_argument("there is no codec '" + std::string(words[0]) +
                                    "'; take one of " + listed(names()));
  }
  if (words.size() - 1 > static_cast<size_t>(family->numbers)) {
    return Status::invalid_argument(
        "'" + std::string(text) + "' has " + std::to_string(words.size() - 1) + " numbers, and " +
        std::string(family->name) + " takes " + std::to_string(family->numbers));
  }
  Codec codec{family, family->usual};
  for (size_t i = 1; i < words.size(); ++i) {
    const auto number = parse_integer<uint32_t>(words[i]);
    if (!number) {
      return Status::invalid_argument("'" + std::string(words[i]) + "' in '" + std::string(text) +
                                      "' is not a number; write for example " +
                                      codec_text({family, family->usual}));
    }
    *number_at(codec.numbers, i - 1) = *number;
  }
  if (Status status = family->check(codec.numbers); !status.ok()) return status;
  return codec;
}

std::string codec_text(const Codec& codec) {
  CodecNumbers numbers = codec.numbers;
  std::string text(codec.family->name);
  for (int i = 0; i < codec.family->numbers; ++i) {
    text += ":" + std::to_string(*number_at(numbers, static_cast<size_t>(i)));
  }
  return text;
}

Status check_no_numbers(const CodecNumbers& numbers) {
  if (numbers == CodecNumbers{}) return {};
  return Status::invalid_argument("this codec has no numbers; set block, kept and bits to 0");
}

Status check_block(const CodecNumbers& numbers) {
  if (numbers.block < 8 || numbers.block > kMostBlock || numbers.block % 8 != 0) {
    return Status::invalid_argument("a block of " + std::to_string(numbers.block) +
                                    " values; give a multiple of 8 from 8 to " +
                                    std::to_string(kMostBlock));
  }
  if (numbers.kept == 0 && numbers.bits == 0) return {};
  return Status::invalid_argument("this codec has a block only; set kept and bits to 0");
}

}  // namespace tutti::codecs
