#include "src/comm/edit.h"

#include <algorithm>

#include "src/base/little.h"
#include "src/comm/card.h"

namespace tutti::comm {
namespace {

enum Text : size_t { kWhat, kArgument, kColor, kKey, kNonce, kSecret, kTexts };

constexpr size_t kNumberBytes = 4;

std::string number(int32_t value) {
  std::string bytes(kNumberBytes, '\0');
  put_little(reinterpret_cast<uint8_t*>(bytes.data()), static_cast<uint32_t>(value), kNumberBytes);
  return bytes;
}

int32_t number(std::string_view bytes) {
  return static_cast<int32_t>(static_cast<uint32_t>(
      get_little(reinterpret_cast<const uint8_t*>(bytes.data()), kNumberBytes)));
}

std::string in_words(const Proposal& proposal) {
  return proposal.what + (proposal.argument.empty() ? "" : " (" + proposal.argument + ")");
}

}  // namespace

std::string Proposal::encode() const {
  const std::string texts[kTexts] = {what, argument, number(color), number(key), nonce, secret};
  return write_texts(texts);
}

Result<Proposal> Proposal::decode(std::string_view bytes) {
  Result<std::vector<std::string>> read = read_texts(bytes);
  if (!read.ok()) return read.status();
  std::vector<std::string>& texts = read.value();
  if (texts.size() != kTexts || texts[kColor].size() != kNumberBytes ||
      texts[kKey].size() != kNumberBytes) {
    return Status::remote_error("a rank brought something that is no proposal to a meeting");
  }
  return Proposal{texts[kWhat],        texts[kArgument], number(texts[kColor]),
                  number(texts[kKey]), texts[kNonce],    texts[kSecret]};
}

Result<std::vector<Proposal>> agree(const std::vector<std::string>& blobs,
                                    const std::vector<int>& members) {
  std::vector<Proposal> proposals;
  for (size_t i = 0; i < blobs.size(); ++i) {
    Result<Proposal> proposal = Proposal::decode(blobs[i]);
    if (!proposal.ok()) return proposal.status();
    proposals.push_back(std::move(proposal).value());
    const Proposal& first = proposals.front();
    const Proposal& last = proposals.back();
    if (first.what == last.what && first.argument == last.argument) continue;
    return Status::invalid_usage(
        "the ranks want different things: rank " + std::to_string(members.front()) + " called " +
        in_words(first) + ", rank " + std::to_string(members[i]) + " called " + in_words(last));
  }
  return proposals;
}

std::vector<int> with_color(const std::vector<Proposal>& proposals, int color) {
  std::vector<int> chosen;
  for (size_t i = 0; i < proposals.size(); ++i) {
    if (proposals[i].color == color) chosen.push_back(static_cast<int>(i));
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
    return proposals[static_cast<size_t>(a)].key < proposals[static_cast<size_t>(b)].key;
  });
  return chosen;
}

Result<std::vector<int>> survivors(int ranks, const int* excluded, int excluded_count) {
  std::vector<bool> out(static_cast<size_t>(ranks), false);
  for (int i = 0; i < excluded_count; ++i) {
    if (excluded[i] < 0 || excluded[i] >= ranks) {
      return Status::invalid_argument("excluded[" + std::to_string(i) + "] is " +
                                      std::to_string(excluded[i]) + ", which is no rank of " +
                                      std::to_string(ranks));
    }
    const auto rank = static_cast<size_t>(excluded[i]);
    if (out[rank]) {
      return Status::invalid_argument("rank " + std::to_string(excluded[i]) + " is excluded twice");
    }
    out[rank] = true;
  }
  std::vector<int> left;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!out[static_cast<size_t>(rank)]) left.push_back(rank);
  }
  return left;
}

std::string salt_of(const std::vector<Proposal>& proposals, int color) {
  std::string salt = proposals.front().what + number(color);
  for (const Proposal& proposal : proposals) salt += proposal.nonce;
  return salt;
}

}  // namespace tutti::comm
