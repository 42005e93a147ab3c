#include "src/consensus/bytes.h"

#include <algorithm>
#include <cstring>

#include "src/base/little.h"

namespace tutti::consensus {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kMemberBytes = 3 * kNumberBytes;

}  // namespace

void ByteWriter::number(uint64_t value) {
  uint8_t bytes[kNumberBytes];
  put_little(bytes, value, kNumberBytes);
  bytes_.append(reinterpret_cast<const char*>(bytes), kNumberBytes);
}

void ByteWriter::member(const MemberId& member) {
  number(member.process.high);
  number(member.process.low);
  number(member.number);
}

void ByteWriter::digest(const Digest& digest) {
  bytes_.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

void ByteWriter::text(std::string_view text) {
  number(text.size());
  bytes_.append(text);
}

void ByteWriter::members(const std::vector<MemberId>& members) {
  number(members.size());
  for (const MemberId& id : members) member(id);
}

void ByteWriter::newcomers(const std::vector<Newcomer>& newcomers) {
  number(newcomers.size());
  for (const Newcomer& newcomer : newcomers) {
    member(newcomer.member);
    text(newcomer.card);
  }
}

std::string_view ByteReader::take(size_t bytes) {
  if (bytes > left_.size()) sound_ = false;
  if (!sound_) return {};
  const std::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return taken;
}

uint64_t ByteReader::number() {
  const std::string_view bytes = take(kNumberBytes);
  if (bytes.empty()) return 0;
  return get_little(reinterpret_cast<const uint8_t*>(bytes.data()), kNumberBytes);
}

MemberId ByteReader::member() {
  MemberId member;
  member.process.high = number();
  member.process.low = number();
  member.number = static_cast<uint32_t>(number());
  return member;
}

size_t ByteReader::count(size_t bytes_each) {
  const uint64_t count = number();
  // Compared by division, so that a length that a stranger chose cannot overflow a product.
  if (count > kMostMembers || count > left_.size() / bytes_each) sound_ = false;
  return sound_ ? static_cast<size_t>(count) : 0;
}

Digest ByteReader::digest() {
  Digest digest{};
  const std::string_view bytes = take(digest.size());
  std::memcpy(digest.data(), bytes.data(), bytes.size());
  return digest;
}

std::string ByteReader::text() {
  const uint64_t bytes = number();
  if (bytes > kLongestText) sound_ = false;
  return std::string(take(sound_ ? static_cast<size_t>(bytes) : 0));
}

std::vector<MemberId> ByteReader::members() {
  std::vector<MemberId> members(count(kMemberBytes));
  for (MemberId& id : members) id = member();
  return members;
}

std::vector<Newcomer> ByteReader::newcomers() {
  std::vector<Newcomer> newcomers(count(kMemberBytes + kNumberBytes));
  for (Newcomer& newcomer : newcomers) {
    newcomer.member = member();
    newcomer.card = text();
  }
  return newcomers;
}

}  // namespace tutti::consensus
