#include "src/api/epoch.h"

#include <string>
#include <utility>
#include <vector>

#include "src/comm/epoch_card.h"

namespace tutti::api {
namespace {

Founding founding_of_epoch(const EpochMaking& making, std::vector<std::string>& lists) {
  const comm::GroupHistory& history = *making.history;
  const consensus::View view = history.view();
  const bootstrap::GroupKey key = comm::key_of_epoch(history.first(), view);
  Founding founding;
  founding.rank = history.rank();
  founding.ranks = history.ranks();
  founding.communicator = key.group;
  founding.key = key.key;
  founding.member_number = history.self().number;
  founding.epoch = view.epoch;
  founding.origin = "epoch " + std::to_string(view.epoch) +
                    " by edits in place: " + std::to_string(view.members.size()) + " members, " +
                    std::to_string(view.newcomers.size()) + " of them new; rank " +
                    std::to_string(founding.rank) + " of " + std::to_string(founding.ranks);
  founding.history = making.history;
  founding.previous = making.previous;
  founding.inherited = making.inherited;
  comm::MemoryTable* const before = making.memory.before;
  const std::string own =
      before == nullptr ? comm::MemoryTable::list_of_newcomer() : before->list();
  founding.exchange = [&session = making.session, &lists, own](
                          std::string_view card,
                          const Patience& patience) -> Result<std::vector<std::string>> {
    const auto texts = session.exchange(comm::write_epoch_card(card, own), patience);
    if (!texts.ok()) return texts.status();
    Result<comm::EpochCards> read = comm::read_epoch_cards(texts.value());
    if (!read.ok()) return read.status();
    lists = std::move(read.value().memory);
    return std::move(read.value().cards);
  };
  return founding;
}

}  // namespace

// Memory comes last: all members have the cards then, and the first one is free to wait for them.
Result<EpochMade> build_epoch(const EpochMaking& making, const Patience& patience) {
  comm::EditSession& session = making.session;
  std::vector<std::string> lists;
  const Founding founding = founding_of_epoch(making, lists);
  const Patience sensible = patience.as_long_as([&session] { return session.check_building(); });
  auto made = found(making.process, founding, making.config, sensible);
  Status status = made.ok() ? session.finish(patience) : made.status();
  if (status.ok()) {
    auto kept = made.value()->take_over(making.memory, lists, patience);
    if (kept.ok()) {
      making.history->set_built();
      return EpochMade{std::move(made).value(), std::move(kept).value()};
    }
    status = kept.status();
  }
  session.give_up(status);
  return status;
}

}  // namespace tutti::api
