#include "src/api/epoch.h"

#include <string>
#include <utility>
#include <vector>

#include "src/comm/epoch_card.h"

namespace tutti::api {
namespace {

CreateOptions create_options_of_epoch(const EpochMaking& pending, std::vector<std::string>& lists) {
  const comm::GroupHistory& history = *pending.history;
  const consensus::View view = history.view();
  const bootstrap::GroupKey key = comm::key_of_epoch(history.first(), view);
  CreateOptions creation;
  creation.rank = history.rank();
  creation.ranks = history.ranks();
  creation.communicator = key.group;
  creation.key = key.key;
  creation.member_number = history.self().number;
  creation.epoch = view.epoch;
  creation.origin = "epoch " + std::to_string(view.epoch) +
                    " by edits in place: " + std::to_string(view.members.size()) + " members, " +
                    std::to_string(view.newcomers.size()) + " of them new; rank " +
                    std::to_string(creation.rank) + " of " + std::to_string(creation.ranks);
  creation.history = pending.history;
  creation.previous = pending.previous;
  creation.inherited = pending.inherited;
  comm::MemoryTable* const before = pending.memory.before;
  const std::string own = before == nullptr ? comm::MemoryTable::list_of_newcomer()
                                            : before->list(*pending.memory.devices);
  creation.exchange = [&session = pending.session, &lists, own](
                          std::string_view card,
                          const WaitLimit& wait_limit) -> Result<std::vector<std::string>> {
    const auto texts = session.exchange(comm::write_epoch_card(card, own), wait_limit);
    if (!texts.ok()) return texts.status();
    Result<comm::EpochCards> read = comm::read_epoch_cards(texts.value());
    if (!read.ok()) return read.status();
    lists = std::move(read.value().memory);
    return std::move(read.value().cards);
  };
  return creation;
}

}  // namespace

// Memory comes last: all members have the cards then, and the first one is free to wait for them.
Result<EpochMade> build_epoch(const EpochMaking& pending, const WaitLimit& wait_limit) {
  comm::EditSession& session = pending.session;
  std::vector<std::string> lists;
  const CreateOptions creation = create_options_of_epoch(pending, lists);
  const WaitLimit sensible = wait_limit.as_long_as([&session] { return session.check_building(); });
  auto made = create_communicator(pending.process, creation, pending.config, sensible);
  Status status = made.ok() ? session.finish(wait_limit) : made.status();
  if (status.ok()) {
    auto kept = made.value()->take_over(pending.memory, lists, wait_limit);
    if (kept.ok()) {
      pending.history->set_built();
      return EpochMade{std::move(made).value(), std::move(kept).value()};
    }
    status = kept.status();
  }
  session.give_up(status);
  return status;
}

}  // namespace tutti::api
