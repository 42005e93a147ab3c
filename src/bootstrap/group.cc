#include "src/bootstrap/group.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/clock.h"
#include "src/base/little.h"
#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kLengthBytes = 4;

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

/// "8", or the ranks of a part: "ranks 3-5".
std::string group_name(const ExchangeKey& exchange_key) {
  if (exchange_key.first == 0) return std::to_string(exchange_key.ranks);
  const int last = exchange_key.first + exchange_key.ranks - 1;
  return "ranks " + std::to_string(exchange_key.first) + "-" + std::to_string(last);
}

void append_blob(std::string& bytes, const std::string& blob) {
  std::array<uint8_t, kLengthBytes> length{};
  put_little(length.data(), blob.size(), kLengthBytes);
  bytes.append(reinterpret_cast<const char*>(length.data()), kLengthBytes);
  bytes += blob;
}

}  // namespace

Status Group::join(int rank, const ExchangeKey& exchange_key, std::string blob) {
  const bool sound = exchange_key.ranks >= 1 && exchange_key.ranks <= kMaxRanks &&
                     exchange_key.first >= 0 && exchange_key.first <= kMaxRanks &&
                     rank >= exchange_key.first && rank - exchange_key.first < exchange_key.ranks;
  if (!sound) {
    return Status::invalid_usage(rank_name(rank) + " says that the group has " +
                                 std::to_string(exchange_key.ranks) + " ranks from " +
                                 std::to_string(exchange_key.first));
  }
  if (blob.size() > exchange_key.most_bytes()) {
    return Status::invalid_usage(rank_name(rank) + " brings " + std::to_string(blob.size()) +
                                 " bytes; at most " + std::to_string(exchange_key.most_bytes()) +
                                 " are allowed");
  }
  if (exchange_key_.ranks == 0) {
    exchange_key_ = exchange_key;
    first_rank_ = rank;
  }
  if (exchange_key.ranks == exchange_key_.ranks && exchange_key.members != exchange_key_.members) {
    return Status::invalid_usage(rank_name(rank) + " leaves other ranks out than " +
                                 rank_name(first_rank_) + " does");
  }
  if (exchange_key != exchange_key_) {
    return Status::invalid_usage(rank_name(rank) + " was told that the group has " +
                                 std::to_string(exchange_key.ranks) + " ranks, but " +
                                 rank_name(first_rank_) + " was told " +
                                 std::to_string(exchange_key_.ranks) + " (or other unique ids)");
  }
  if (!blobs_.emplace(rank, std::move(blob)).second) {
    return Status::invalid_usage("two processes (or threads) say that they are " + rank_name(rank) +
                                 " of " + std::to_string(exchange_key.ranks) +
                                 "; if they are of two jobs that look the same, give each its own "
                                 "id, MASTER_PORT or TUTTI_JOB");
  }
  left_.erase(rank);
  return {};
}

void Group::leave(int rank, uint64_t now_ns) {
  if (blobs_.erase(rank) > 0) left_[rank] = now_ns;
}

uint64_t Group::away_since_ns() const {
  uint64_t first_ns = kNoDeadline;
  for (const auto& [rank, since_ns] : left_) first_ns = std::min(first_ns, since_ns);
  return first_ns;
}

std::string Group::encode() const {
  std::string bytes;
  for (int rank = exchange_key_.first; rank < exchange_key_.first + exchange_key_.ranks; ++rank) {
    const auto found = blobs_.find(rank);
    append_blob(bytes, found != blobs_.end() ? found->second : std::string());
  }
  return bytes;
}

std::string Group::missing() const {
  std::vector<int> absent;
  for (int rank = exchange_key_.first; rank < exchange_key_.first + exchange_key_.ranks; ++rank) {
    const bool expected = !std::binary_search(left_out_.begin(), left_out_.end(), rank);
    if (expected && !blobs_.contains(rank)) absent.push_back(rank);
  }
  const char* const noun = absent.size() == 1 ? "rank " : "ranks ";
  std::string text =
      noun + list_ranks(absent) + " of " + group_name(exchange_key_) + " did not come";
  if (!left_.empty()) {
    std::vector<int> left;
    for (const auto& [rank, since_ns] : left_) left.push_back(rank);
    text += " (" + list_ranks(left) + " came and went away again)";
  }
  return text;
}

Status two_jobs() {
  return Status::invalid_usage(
      "two jobs of this user that look the same start on this host at one time, and nothing tells "
      "their ranks apart; give each its own MASTER_PORT or TUTTI_JOB");
}

std::string encode_blobs(const std::vector<std::string>& blobs) {
  std::string bytes;
  for (const std::string& blob : blobs) append_blob(bytes, blob);
  return bytes;
}

Result<std::vector<std::string>> decode_blobs(std::string_view bytes, int ranks,
                                              size_t most_bytes) {
  std::vector<std::string> blobs;
  while (!bytes.empty()) {
    if (bytes.size() < kLengthBytes || blobs.size() == static_cast<size_t>(ranks)) break;
    const uint64_t length =
        get_little(reinterpret_cast<const uint8_t*>(bytes.data()), kLengthBytes);
    bytes.remove_prefix(kLengthBytes);
    if (length > most_bytes || length > bytes.size()) {
      return Status::remote_error("the rendezvous answered with a blob that is too long");
    }
    blobs.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (!bytes.empty() || blobs.size() != static_cast<size_t>(ranks)) {
    return Status::remote_error("the rendezvous did not answer with one blob per rank");
  }
  return blobs;
}

}  // namespace tutti::bootstrap
