// Targets for what members tell each other while they edit their group: it comes by the carrier,
// from whoever has the group's key.
#include "src/comm/epoch_card.h"
#include "src/comm/group_history.h"
#include "src/consensus/message.h"
#include "tests/fuzz/targets.h"

namespace tutti::fuzz {
namespace {

constexpr MemberId kOne{{1, 2}, 3}, kOther{{4, 5}, 6}, kNew{{7, 8}, 4099};

consensus::View some_view() {
  consensus::View view;
  view.epoch = 5;
  view.previous.fill(9);
  view.members = {kOne, kNew};
  view.newcomers = {{kNew, "a card"}};
  return view;
}

}  // namespace

bool run_edit_message(Bytes input) {
  const Result<consensus::EditMessage> read = consensus::EditMessage::decode(as_text(input));
  if (!read.ok()) {
    require(read.status().code() == Code::kRemoteError, "the documented error");
    return false;
  }
  const auto again = consensus::EditMessage::decode(read.value().encode());
  require(again.ok() && again.value() == read.value(), "a message says what was read");
  return true;
}

std::vector<std::string> corpus_edit_message() {
  using consensus::EditMessage;
  EditMessage here;
  here.from = kNew;
  here.epoch = 4;
  here.text = "a card";
  EditMessage promise = here;
  promise.kind = EditMessage::Subject::kPromise;
  promise.from = kOne;
  promise.ballot = {7, kOther};
  promise.promised = {8, kOne};
  promise.proposal = consensus::ViewProposal{{6, kOne}, some_view()};
  promise.dead = {kOther};
  EditMessage adopted = promise;
  adopted.kind = EditMessage::Subject::kAdopted;
  return {here.encode(), promise.encode(), adopted.encode()};
}

bool run_view(Bytes input) {
  const Result<consensus::View> read = consensus::View::decode(as_text(input));
  if (!read.ok()) return false;
  const auto again = consensus::View::decode(read.value().encode());
  require(again.ok() && again.value() == read.value(), "a view says what was read");
  require(again.value().digest() == read.value().digest(), "equal views have one digest");
  return true;
}

std::vector<std::string> corpus_view() { return {some_view().encode()}; }

bool run_epoch_card(Bytes input) {
  const std::string text(as_text(input));
  const Result<comm::EpochCards> read = comm::read_epoch_cards({text});
  if (!read.ok()) return false;
  require(comm::write_epoch_card(read.value().cards[0], read.value().memory[0]) == text,
          "a card is what was written");
  return true;
}

std::vector<std::string> corpus_epoch_card() {
  return {comm::write_epoch_card("card", "memory"), comm::write_epoch_card("", "")};
}

bool run_place(Bytes input) {
  const Result<comm::RankAddress> read = comm::read_place(as_text(input));
  if (!read.ok()) {
    require(read.status().code() == Code::kRemoteError, "the documented error");
    return false;
  }
  const auto again = comm::read_place(comm::write_place(read.value()));
  require(again.ok() && again.value().port == read.value().port, "a place is what was read");
  return true;
}

std::vector<std::string> corpus_place() {
  comm::RankAddress place;
  place.host = "alpha";
  place.process = 4711;
  place.address = bootstrap::Address::parse("192.0.2.1").value();
  place.port = 2345;
  place.host_id = "alpha-1";
  return {comm::write_place(place)};
}

}  // namespace tutti::fuzz
