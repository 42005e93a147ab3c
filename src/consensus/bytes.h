// Views and messages as bytes: numbers of fixed width, lists with their lengths in front.
//
// The bytes that are read came from a peer, so nothing is believed: a reader that ran out of bytes,
// or met a length beyond the limits, gives empty values from then on and says so in finished().
//
// Units: bytes, little endian. Threads: one object belongs to one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/consensus/view.h"

namespace tutti::consensus {

/// The most members of a group and the longest card or text that a peer is believed.
inline constexpr size_t kMostMembers = size_t{1} << 20;
inline constexpr size_t kLongestText = size_t{1} << 26;

class ByteWriter {
 public:
  void number(uint64_t value);
  void member(const MemberId& member);
  void digest(const Digest& digest);
  void text(std::string_view text);
  void members(const std::vector<MemberId>& members);
  void newcomers(const std::vector<Newcomer>& newcomers);
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}
  uint64_t number();
  MemberId member();
  Digest digest();
  std::string text();
  std::vector<MemberId> members();
  std::vector<Newcomer> newcomers();
  /// Whether everything was there, and nothing is left.
  bool finished() const { return sound_ && left_.empty(); }

 private:
  std::string_view take(size_t bytes);
  /// How many entries follow, each of at least `bytes_each` bytes.
  size_t count(size_t bytes_each);

  std::string_view left_;
  bool sound_ = true;
};

}  // namespace tutti::consensus
