// The text of each member by which the next epoch of an edit is made: its card for the links, and a
// list of the memory that it has in the epoch that ends.
//
// Threads: pure functions. Errors: kRemoteError for text that write_epoch_card() did not make.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::comm {

std::string write_epoch_card(std::string_view card, std::string_view memory);

struct EpochCards {
  std::vector<std::string> cards, memory;  // by rank
};
Result<EpochCards> read_epoch_cards(const std::vector<std::string>& texts);

}  // namespace tutti::comm
