// Targets for what ranks tell each other when a communicator is made from another, and when memory
// is registered: it comes through the rendezvous, from whoever has the key.
#include "src/comm/edit.h"
#include "src/transport/memory_handle.h"
#include "tests/fuzz/targets.h"

namespace tutti::fuzz {
bool run_proposal(Bytes input) {
  const std::string text(as_text(input));
  const Result<comm::Proposal> read = comm::Proposal::decode(text);
  const auto agreed = comm::agree({text, text, text}, {0, 2, 5});
  require(agreed.ok() == read.ok(), "ranks that want the same agree");
  if (!read.ok()) return false;
  require(read.value().encode() == text, "a proposal is what was written");
  const std::vector<int> chosen = comm::with_color(agreed.value(), read.value().color);
  require(chosen == std::vector<int>({0, 1, 2}), "equal keys keep their order");
  comm::Proposal other = read.value();
  other.argument += "x";
  const auto refused = comm::agree({text, other.encode()}, {3, 4});
  require(!refused.ok(), "ranks that want different things do not agree");
  require(refused.status().message().find("rank 4") != std::string::npos, "both are named");
  return true;
}

std::vector<std::string> corpus_proposal() {
  const comm::Proposal split{"split", "", 3, -1, std::string(32, 'n'), ""};
  const comm::Proposal grow{"grow", "16", 0, 0, std::string(32, 'm'), std::string(200, 's')};
  return {split.encode(), grow.encode()};
}

bool run_memory(Bytes input) {
  const std::string_view text = as_text(input);
  const Result<transport::MemoryHandle> read = transport::parse_memory(text);
  if (!read.ok()) {
    require(read.status().code() == Code::kInvalidArgument, "the documented error");
    return false;
  }
  constexpr int kNoFile = -1;
  require(!transport::names_file(read.value(), kNoFile), "no descriptor is no file");
  return true;
}

std::vector<std::string> corpus_memory() {
  return {"tutti-memory-1 4711 5 1 2a 7f0000000000 1000"};
}

}  // namespace tutti::fuzz
