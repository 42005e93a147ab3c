// Edits in place: tuttiCommEdit() of members, tuttiCommJoin() of newcomers.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "src/api/caught.h"
#include "src/api/events.h"
#include "src/api/found.h"
#include "src/api/hand_out.h"
#include "src/api/making.h"
#include "src/api/parent.h"
#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/host_name.h"
#include "src/base/little.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/host.h"
#include "src/comm/edit_plan.h"
#include "src/comm/edit_session.h"

namespace tutti::api {
namespace {

constexpr uint64_t kUsualLimitNs = 60 * kNanosecondsPerSecond;
constexpr uint64_t kOwnDescriptors = 8;
constexpr const char* kEdit = "tuttiCommEdit";
constexpr const char* kJoin = "tuttiCommJoin";

using Child = Result<std::unique_ptr<comm::Communicator>>;

/// One rank's part of an edit.
struct EditInPlace {
  Process* process = nullptr;
  tuttiComm* handle = nullptr;
  comm::EditPlan plan;
  bool abort = false;
  uint64_t timeout_ns = kUsualLimitNs;
  tuttiEditReport_t* report = nullptr;
};

/// The report, and a clock for its phases.
class EditStory {
 public:
  uint64_t lap() {
    const uint64_t now_ns = monotonic_ns();
    return now_ns - std::exchange(last_ns_, now_ns);
  }
  tuttiEditReport_t report{};

 private:
  uint64_t last_ns_ = monotonic_ns();
};

/// A structure of the caller may be older and shorter.
void give(const tuttiEditReport_t& report, tuttiEditReport_t* out) {
  if (out == nullptr) return;
  const size_t size = out->size;
  std::memcpy(out, &report, std::min(size, sizeof report));
  out->size = size;
}

/// The links of the old epoch say which members of other hosts may be dead.
comm::EditSession::IsLost lost_by(const comm::Membership& membership) {
  return [&membership](const MemberId& member) {
    const int rank = membership.rank_of(member);
    const transport::Link* link = rank < 0 ? nullptr : membership.link(rank);
    return link != nullptr && !link->status().ok();
  };
}

// The epoch that a session's members have adopted.
Founding founding_of_epoch(const std::shared_ptr<comm::GroupHistory>& history,
                           comm::EditSession& session) {
  const consensus::View view = history->view();
  const bootstrap::GroupKey key = comm::key_of_epoch(history->first(), view);
  Founding founding;
  founding.rank = history->rank();
  founding.ranks = history->ranks();
  founding.communicator = key.group;
  founding.key = key.key;
  founding.member_number = history->self().number;
  founding.epoch = view.epoch;
  founding.origin = "epoch " + std::to_string(view.epoch) +
                    " by edits in place: " + std::to_string(view.members.size()) + " members, " +
                    std::to_string(view.newcomers.size()) + " of them new; rank " +
                    std::to_string(founding.rank) + " of " + std::to_string(founding.ranks);
  founding.history = history;
  founding.exchange = [&session](std::string_view card, const Patience& patience) {
    return session.exchange(card, patience);
  };
  return founding;
}

Child build(Process& process, const Founding& founding, const CommConfig& config,
            comm::EditSession& session, const Patience& patience) {
  const Patience sensible = patience.as_long_as([&session] { return session.check_building(); });
  Child made = found(process, founding, config, sensible);
  Status status = made.ok() ? session.finish(patience) : made.status();
  if (status.ok()) {
    founding.history->set_built();
    return made;
  }
  session.give_up(status);
  return status;
}

void count_changes(const comm::LinkChanges& changes, tuttiEditReport_t& report) {
  report.links_kept = changes.kept;
  report.links_made_for_newcomers = changes.made_for_newcomers;
  report.links_made_at_first_use = changes.made_at_first_use;
  report.links_made_again = changes.made_again;
  report.links_closed = changes.closed;
}

/// All attempts of one edit.
class EditAttempts {
 public:
  EditAttempts(const EditInPlace& edit, const Patience& patience)
      : edit_(edit),
        patience_(patience),
        before_(edit.handle->communicator->standing().members()) {}

  Status run() {
    comm::Communicator& parent = *edit_.handle->communicator;
    Result<std::shared_ptr<comm::GroupHistory>> history = parent.standing().history();
    if (!history.ok()) return history.status();
    history_ = std::move(history).value();
    if (history_->rank() < 0) {
      return named(Status::invalid_usage("the other members have removed this rank"));
    }
    Result<consensus::Wish> wish = comm::wish_of(edit_.plan, history_->view());
    if (!wish.ok()) return named(wish.status());
    if (Status status = parent.check_editable(); !status.ok()) return named(status);
    Status quiet = quiesce(kEdit, edit_.handle, edit_.abort,
                           "revoke the communicator, or set `abort` of the edit", patience_);
    if (!quiet.ok()) return quiet;
    story_.report.drain_ns = story_.lap();
    // Two connections with each member at most, if both ends call.
    const auto most = 2 * static_cast<uint64_t>(history_->ranks());
    const DescriptorRoom::Claim room(edit_.process->descriptors(), kOwnDescriptors + most);
    auto session = comm::EditSession::open(*history_, lost_by(parent.membership()));
    if (!session.ok()) return named(session.status());
    return room.explain(go_on(*session.value(), wish.value()));
  }

 private:
  /// An epoch that could not be built is followed by the next one where that is what the edit says.
  Status go_on(comm::EditSession& session, const consensus::Wish& wish) {
    const bool goes_on = wish.who == consensus::Wish::Leave::kDead && wish.join == 0;
    const uint32_t began_at = history_->epoch();
    for (;;) {
      Status status = session.agree(wish, patience_);
      if (!status.ok()) return history_->epoch() == began_at ? named(status) : strand(status);
      story_.report.agree_ns += story_.lap();
      tell_agreed();
      status = build_and_move(session);
      if (status.ok()) return status;
      if (!goes_on || patience_.over()) return strand(status);
      log().info("{}: {}; the members agree anew", kEdit, status.message());
    }
  }

  Status build_and_move(comm::EditSession& session) {
    comm::Communicator& parent = *edit_.handle->communicator;
    Founding founding = founding_of_epoch(history_, session);
    founding.previous = &parent.membership();
    // A newcomer has no model of this group, and all ranks must choose by the same one.
    const bool has_newcomers = !history_->view().newcomers.empty();
    if (parent.model().is_known && !has_newcomers) founding.inherited = parent.model().model;
    Child made = build(*edit_.process, founding, edit_.handle->config, session, patience_);
    story_.report.build_ns += story_.lap();
    if (!made.ok()) return made.status();
    count_changes(made.value()->membership().changes_since(parent.membership()), story_.report);
    if (Status status = move_over(edit_.handle, std::move(made).value()); !status.ok()) {
      return status;
    }
    conclude();
    return {};
  }

  void conclude() {
    tuttiEditReport_t& report = story_.report;
    report.move_ns = story_.lap();
    report.epoch = history_->epoch();
    report.rank = history_->rank();
    report.ranks = history_->ranks();
    const consensus::View view = history_->view();
    for (const MemberId& member : before_) report.removed += view.holds(member) ? 0 : 1;
    report.joined = report.ranks - (static_cast<int>(before_.size()) - report.removed);
    give(report, edit_.report);
    log().info(
        "{}: epoch {} has begun: rank {} of {}, id {:016x}; connections: {} kept, {} to newcomers, "
        "{} at first use, {} made again, {} closed; {:.1f} ms",
        kEdit, report.epoch, report.rank, report.ranks, edit_.handle->communicator->id(),
        report.links_kept, report.links_made_for_newcomers, report.links_made_at_first_use,
        report.links_made_again, report.links_closed,
        static_cast<double>(report.drain_ns + report.agree_ns + report.build_ns + report.move_ns) /
            kNanosecondsPerMillisecond);
  }

  void tell_agreed() const {
    const consensus::View view = history_->view();
    log().info("{}: the members have agreed on epoch {}: {} members, {} of them new; {:.1f} ms",
               kEdit, view.epoch, view.members.size(), view.newcomers.size(),
               static_cast<double>(story_.report.agree_ns) / kNanosecondsPerMillisecond);
  }

  /// The old epoch is over, and the new one has no links.
  Status strand(const Status& why) const {
    comm::Communicator& parent = *edit_.handle->communicator;
    Status reason(why.code(), std::string(kEdit) + ": " + std::string(why.message()) +
                                  "; the communicator stands in epoch " +
                                  std::to_string(history_->epoch()) + ", as rank " +
                                  std::to_string(history_->rank()) + " of " +
                                  std::to_string(history_->ranks()) +
                                  ", without links: edit it again, or destroy it");
    parent.failures().abort(reason);
    parent.give_up();
    return reason;
  }

  static Status named(const Status& status) {
    return Status(status.code(), std::string(kEdit) + ": " + std::string(status.message()));
  }

  Logger& log() const { return *edit_.process->env().log; }

  const EditInPlace& edit_;
  const Patience& patience_;
  const std::vector<MemberId> before_;
  std::shared_ptr<comm::GroupHistory> history_;
  EditStory story_;
};

Status read_edit(const tuttiEdit_t* given, EditInPlace& edit) {
  const auto refuse = [](const std::string& what) {
    return Status::invalid_argument(std::string(kEdit) + ": " + what);
  };
  if (given == nullptr) return refuse("edit is null");
  tuttiEdit_t read = TUTTI_EDIT_INITIALIZER;
  const size_t known = std::min(given->size, sizeof read);
  if (known < offsetof(tuttiEdit_t, removed_count)) return refuse("edit has the size 0");
  std::memcpy(&read, given, known);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t at = sizeof read; at < given->size; ++at) {
    if (bytes[at] != 0) return refuse("edit has fields that this version of Tutti does not know");
  }
  const bool counts_fit = read.removed_count >= 0 && read.order_count >= 0 && read.newcomers >= 0 &&
                          read.at_least >= 0 && read.newcomers <= bootstrap::kMaxRanks;
  if (!counts_fit) return refuse("a count is negative, or larger than any group");
  if (read.removed == nullptr && read.removed_count > 0) return refuse("removed is null");
  if (read.order == nullptr && read.order_count > 0) return refuse("order is null");
  edit.plan.removes_dead = read.remove_dead != 0;
  edit.plan.removed.assign(read.removed, read.removed + read.removed_count);
  edit.plan.order.assign(read.order, read.order + read.order_count);
  edit.plan.newcomers = static_cast<uint32_t>(read.newcomers);
  edit.plan.at_least = static_cast<uint32_t>(read.at_least);
  edit.abort = read.abort != 0;
  if (read.timeout_ns != 0) edit.timeout_ns = read.timeout_ns;
  return {};
}

tuttiResult_t edit_in_place(tuttiComm_t comm, const tuttiEdit_t* given,
                            tuttiEditReport_t* report_out) {
  Visitor visitor = visit(comm);
  EditInPlace edit;
  edit.handle = comm;
  edit.report = report_out;
  Status ready = check_parent({kEdit, comm, true});
  if (ready.ok()) ready = read_edit(given, edit);
  if (ready.ok() && report_out != nullptr &&
      report_out->size <= offsetof(tuttiEditReport_t, epoch)) {
    ready = Status::invalid_argument(std::string(kEdit) + ": report has no size; set it");
  }
  // An edit that can be refused at once leaves everything as it is.
  if (ready.ok()) {
    const consensus::View present{0, {}, comm->communicator->standing().members(), {}};
    const auto wish = comm::wish_of(edit.plan, present);
    if (!wish.ok()) {
      ready = Status(wish.status().code(),
                     std::string(kEdit) + ": " + std::string(wish.status().message()));
    }
  }
  if (!ready.ok()) return refuse(comm, ready);
  const Result<Process*> process = Process::current();
  if (!process.ok()) return refuse(comm, process.status());
  edit.process = process.value();
  const Inside inside;
  CommState was = comm->state.load(std::memory_order_acquire);
  const bool usable = was == CommState::kAlive || was == CommState::kRevoked;
  if (!usable || !comm->state.compare_exchange_strong(was, CommState::kBusy)) {
    return refuse(comm, check_handle(comm));
  }
  visitor = Visitor(nullptr);  // from here on a thread that ends the handle leaves it to this call
  Making making;
  making.parent = comm;
  making.parent_was = was;
  making.revives_parent = true;
  making.blocking = comm->config.blocking;
  const Status prepared = caught_status([&] {
    making.make = [edit](const Patience& patience) -> Child {
      const Patience limited = patience.at_most(edit.timeout_ns);
      Status status = EditAttempts(edit, limited).run();
      if (!status.ok()) return status;
      return std::unique_ptr<comm::Communicator>();
    };
    return Status();
  });
  if (!prepared.ok()) {
    free_parent(making, making.parent_was);
    return refuse(comm, prepared);
  }
  return make_communicator(std::move(making));
}

/// A newcomer listens before it belongs to a group.
Result<std::shared_ptr<const comm::Roster>> listen_as_newcomer(Process& process,
                                                               const bootstrap::UniqueId& id) {
  const Config& environment = *process.env().config;
  const Result<bootstrap::Interface> chosen = choose_interface(environment, id.addresses);
  if (!chosen.ok()) return chosen.status();
  Result<bootstrap::Listener> listener = bootstrap::listen_on(chosen.value().address, 0);
  if (!listener.ok()) return listener.status();
  auto roster = std::make_shared<comm::Roster>();
  roster->places.push_back({host_name(), getpid(), chosen.value().address, listener.value().port,
                            bootstrap::host_id(environment)});
  roster->listener = std::move(listener.value().fd);
  return std::shared_ptr<const comm::Roster>(roster);
}

/// Until the members let this newcomer in. Each turn begins with the view that they have then.
Child join_group(Process& process, const bootstrap::UniqueId& id, const CommConfig& config,
                 const Patience& patience) {
  auto listener = listen_as_newcomer(process, id);
  if (!listener.ok()) return listener.status();
  const bootstrap::GroupKey door{id.communicator(), id.key};
  const MemberId self{process.id(),
                      static_cast<uint32_t>(bootstrap::kMaxRanks + process.next_id())};
  patience.waits_for("a newcomer waits for the members to let it in");
  for (;;) {
    const Result<std::string> words =
        bootstrap::ask_as_guest(id.addresses, id.group_port, door, patience);
    if (!words.ok()) return words.status();
    Result<comm::GroupWelcome> welcome = comm::GroupWelcome::open(id.key, words.value());
    if (!welcome.ok()) return welcome.status();
    comm::GroupWelcome& told = welcome.value();
    const auto history = std::make_shared<comm::GroupHistory>(
        self, told.first, listener.value(), std::move(told.view), std::move(told.places));
    auto session = comm::EditSession::open(*history, [](const MemberId&) { return false; });
    if (!session.ok()) return session.status();
    const Result<bool> joined = session.value()->join(patience);
    if (!joined.ok()) return joined.status();
    if (!joined.value()) continue;
    const Founding founding = founding_of_epoch(history, *session.value());
    return build(process, founding, config, *session.value(), patience);
  }
}

tuttiResult_t join_in_place(tuttiComm_t* out, const tuttiUniqueId* given,
                            const tuttiConfig_t* given_config) {
  const std::string name = kJoin;
  if (out == nullptr) return report(nullptr, Status::invalid_argument(name + ": comm is null"));
  hand_out(out, nullptr);
  if (given == nullptr) return report(nullptr, Status::invalid_argument(name + ": id is null"));
  const Result<bootstrap::UniqueId> id = decode_id(*given);
  if (!id.ok()) return report(nullptr, id.status());
  if (id.value().group_port == 0) {
    return report(nullptr, Status::invalid_argument(
                               name + ": this id leads to no communicator; it must come from "
                                      "tuttiCommGetUniqueId of a communicator whose network this "
                                      "host can reach"));
  }
  const Result<CommConfig> config = read_config(given_config, {}, kJoin);
  if (!config.ok()) return report(nullptr, config.status());
  const Result<Process*> process = Process::current();
  if (!process.ok()) return report(nullptr, process.status());
  const Inside inside;
  Maker maker = [process = process.value(), id = id.value(),
                 config = config.value()](const Patience& patience) {
    return join_group(*process, id, config, patience);
  };
  Result<Making> making =
      plan_making(out, config.value(), told(kJoin, config.value(), std::move(maker)));
  if (!making.ok()) return report(nullptr, making.status());
  making.value().who = "a newcomer";
  return make_communicator(std::move(making).value());
}

Status get_epoch(tuttiComm_t comm, uint32_t* epoch) {
  const Visitor visitor = visit(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  if (epoch == nullptr) return Status::invalid_argument("tuttiCommGetEpoch: epoch is null");
  *epoch = comm->communicator->standing().epoch();
  return {};
}

Status get_member_id(tuttiComm_t comm, int rank, tuttiMemberId* id) {
  const Visitor visitor = visit(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  if (id == nullptr) return Status::invalid_argument("tuttiCommGetMemberId: id is null");
  const std::vector<MemberId> members = comm->communicator->standing().members();
  if (rank < 0 || static_cast<size_t>(rank) >= members.size()) {
    return Status::invalid_argument("tuttiCommGetMemberId: " + std::to_string(rank) +
                                    " is no rank of " + std::to_string(members.size()));
  }
  const MemberId& member = members[static_cast<size_t>(rank)];
  std::memset(id, 0, sizeof *id);
  auto* const bytes = reinterpret_cast<uint8_t*>(id->bytes);
  put_little(bytes, member.process.high, 8);
  put_little(bytes + 8, member.process.low, 8);
  put_little(bytes + 16, member.number, 4);
  return {};
}

}  // namespace
}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiCommEdit(tuttiComm_t comm, const tuttiEdit_t* edit, tuttiEditReport_t* report) {
  return tutti::api::caught(comm, [&] { return tutti::api::edit_in_place(comm, edit, report); });
}

tuttiResult_t tuttiCommJoin(tuttiComm_t* comm, const tuttiUniqueId* id,
                            const tuttiConfig_t* config) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::join_in_place(comm, id, config); });
}

tuttiResult_t tuttiCommGetEpoch(tuttiComm_t comm, uint32_t* epoch) {
  return tutti::api::caught(
      comm, [&] { return tutti::api::report(comm, tutti::api::get_epoch(comm, epoch)); });
}

tuttiResult_t tuttiCommGetMemberId(tuttiComm_t comm, int rank, tuttiMemberId* id) {
  return tutti::api::caught(
      comm, [&] { return tutti::api::report(comm, tutti::api::get_member_id(comm, rank, id)); });
}

}  // extern "C"
