#include "src/consensus/message.h"

#include "src/consensus/bytes.h"

namespace tutti::consensus {
namespace {

void write_ballot(Writer& out, const Ballot& ballot) {
  out.number(ballot.counter);
  out.number(ballot.member);
}

Ballot read_ballot(Reader& in) {
  Ballot ballot;
  ballot.counter = in.number();
  ballot.member = in.number();
  return ballot;
}

}  // namespace

std::string Message::encode() const {
  Writer out;
  out.number(static_cast<uint64_t>(kind));
  out.number(from);
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

Result<Message> Message::decode(std::string_view bytes) {
  const Status malformed =
      Status::remote_error("a member sent a message about an edit that is malformed");
  Reader in(bytes);
  Message message;
  const uint64_t kind = in.number();
  if (kind > static_cast<uint64_t>(Kind::kAdopted)) return malformed;
  message.kind = static_cast<Kind>(kind);
  message.from = in.number();
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
    message.proposal = Proposal{ballot, std::move(view).value()};
  }
  if (!in.finished()) return malformed;
  const bool needs_proposal = message.kind == Kind::kAccept || message.kind == Kind::kAdopted;
  if (needs_proposal && !message.proposal) return malformed;
  return message;
}

}  // namespace tutti::consensus
