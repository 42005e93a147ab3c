#include "src/consensus/message.h"

#include "src/consensus/bytes.h"

namespace tutti::consensus {
namespace {

void write_ballot(ByteWriter& out, const Ballot& ballot) {
  out.number(ballot.counter);
  out.member(ballot.member);
}

Ballot read_ballot(ByteReader& in) {
  Ballot ballot;
  ballot.counter = in.number();
  ballot.member = in.member();
  return ballot;
}

}  // namespace

std::string EditMessage::encode() const {
  ByteWriter out;
  out.number(static_cast<uint64_t>(kind));
  out.member(from);
  out.number(epoch);
  out.digest(view);
  write_ballot(out, ballot);
  write_ballot(out, promised);
  out.members(dead);
  out.text(text);
  out.number(proposal ? 1 : 0);
  if (proposal) {
    write_ballot(out, proposal->ballot);
    out.text(proposal->view.encode());
  }
  return std::move(out).bytes();
}

Result<EditMessage> EditMessage::decode(std::string_view bytes) {
  const Status malformed =
      Status::remote_error("a member sent a message about an edit that is malformed");
  ByteReader in(bytes);
  EditMessage message;
  const uint64_t kind = in.number();
  if (kind > static_cast<uint64_t>(Subject::kAdopted)) return malformed;
  message.kind = static_cast<Subject>(kind);
  message.from = in.member();
  message.epoch = static_cast<uint32_t>(in.number());
  message.view = in.digest();
  message.ballot = read_ballot(in);
  message.promised = read_ballot(in);
  message.dead = in.members();
  message.text = in.text();
  if (in.number() != 0) {
    const Ballot ballot = read_ballot(in);
    Result<View> view = View::decode(in.text());
    if (!view.ok()) return view.status();
    message.proposal = ViewProposal{ballot, std::move(view).value()};
  }
  if (!in.finished()) return malformed;
  const bool needs_proposal = message.kind == Subject::kAccept || message.kind == Subject::kAdopted;
  if (needs_proposal && !message.proposal) return malformed;
  return message;
}

}  // namespace tutti::consensus
