#include "src/comm/epoch_card.h"

#include "src/consensus/bytes.h"

namespace tutti::comm {

std::string write_epoch_card(std::string_view card, std::string_view memory) {
  consensus::ByteWriter out;
  out.text(card);
  out.text(memory);
  return std::move(out).bytes();
}

Result<EpochCards> read_epoch_cards(const std::vector<std::string>& texts) {
  EpochCards all;
  for (const std::string& text : texts) {
    consensus::ByteReader in(text);
    all.cards.push_back(in.text());
    all.memory.push_back(in.text());
    if (!in.finished()) return Status::remote_error("a member has sent a malformed card");
  }
  return all;
}

}  // namespace tutti::comm
