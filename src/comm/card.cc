#include "src/comm/card.h"

#include <cstdint>

namespace tutti::comm {

std::string write_texts(std::span<const std::string> texts) {
  std::string card;
  for (const std::string& text : texts) {
    const auto bytes = static_cast<uint16_t>(text.size());
    card += static_cast<char>(bytes & 0xff);
    card += static_cast<char>(bytes >> 8);
    card += text;
  }
  return card;
}

Result<std::vector<std::string>> read_texts(std::string_view card) {
  std::vector<std::string> texts;
  while (!card.empty()) {
    if (card.size() < 2 || texts.size() == kMaxCardTexts) {
      return Status::remote_error("a rank published a malformed card");
    }
    const size_t bytes =
        static_cast<uint8_t>(card[0]) | static_cast<size_t>(static_cast<uint8_t>(card[1])) << 8;
    card.remove_prefix(2);
    if (card.size() < bytes) return Status::remote_error("a rank published a truncated card");
    texts.emplace_back(card.substr(0, bytes));
    card.remove_prefix(bytes);
  }
  return texts;
}

}  // namespace tutti::comm
