#include "src/consensus/view.h"

#include <sodium.h>

#include <algorithm>

#include "src/consensus/bytes.h"

namespace tutti::consensus {
namespace {

bool contains(const std::vector<MemberId>& members, MemberId member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

bool has_repeats(std::vector<MemberId> members) {
  std::sort(members.begin(), members.end());
  return std::adjacent_find(members.begin(), members.end()) != members.end();
}

}  // namespace

bool View::holds(MemberId member) const { return contains(members, member); }

Digest View::digest() const {
  const std::string bytes = encode();
  Digest digest{};
  crypto_generichash(digest.data(), digest.size(),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr,
                     0);
  return digest;
}

std::string View::encode() const {
  ByteWriter out;
  out.number(epoch);
  out.digest(previous);
  out.members(members);
  out.newcomers(newcomers);
  return std::move(out).bytes();
}

Result<View> View::decode(std::string_view bytes) {
  ByteReader in(bytes);
  View view;
  view.epoch = static_cast<uint32_t>(in.number());
  view.previous = in.digest();
  view.members = in.members();
  view.newcomers = in.newcomers();
  bool sound = in.finished() && !view.members.empty() && !has_repeats(view.members);
  for (const Newcomer& newcomer : view.newcomers) sound = sound && view.holds(newcomer.member);
  if (!sound) return Status::remote_error("a member sent a view of the group that is malformed");
  return view;
}

std::vector<MemberId> next_order(const std::vector<MemberId>& previous,
                                 const std::vector<MemberId>& leaving,
                                 const std::vector<MemberId>& joining) {
  std::vector<MemberId> order;
  size_t joined = 0;
  for (const MemberId member : previous) {
    if (!contains(leaving, member)) {
      order.push_back(member);
    } else if (joined < joining.size()) {
      order.push_back(joining[joined++]);
    }
  }
  for (; joined < joining.size(); ++joined) order.push_back(joining[joined]);
  return order;
}

}  // namespace tutti::consensus
