// Edits in place as the members that stay call them: tuttiCommEdit().

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/api/caught.h"
#include "src/api/epoch.h"
#include "src/api/parent.h"
#include "src/api/pending_init.h"
#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/little.h"
#include "src/bootstrap/group.h"
#include "src/comm/edit_plan.h"
#include "src/comm/edit_session.h"
#include "src/comm/removed_members.h"

namespace tutti::api {
namespace {

constexpr uint64_t kUsualLimitNs = 60 * kNanosecondsPerSecond;
constexpr uint64_t kOwnDescriptors = 8;
constexpr const char* kEdit = "tuttiCommEdit";

/// One rank's part of an edit.
struct EditInPlace {
  Process* process = nullptr;
  tuttiComm* handle = nullptr;
  comm::EditPlan plan;
  bool abort = false;
  bool kills_removed = false;
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
  EditAttempts(const EditInPlace& edit, const WaitLimit& wait_limit)
      : edit_(edit),
        wait_limit_(wait_limit),
        before_(edit.handle->communicator->standing().members()),
        kept_out_(*edit.handle->communicator, edit.kills_removed) {}

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
    Status quiet = quiesce(kEdit, edit_.handle, edit_.abort,
                           "revoke the communicator, or set `abort` of the edit", wait_limit_);
    if (!quiet.ok()) return quiet;
    if (Status over = parent.streams().await_over(wait_limit_); !over.ok()) return named(over);
    Status apart = keep_apart(wish.value().leave);
    if (!apart.ok()) return named(apart);
    story_.report.drain_ns = story_.lap();
    // Two connections with each member at most, if both ends call.
    const auto most = 2 * static_cast<uint64_t>(history_->ranks());
    const DescriptorRoom::Claim room(edit_.process->descriptors(), kOwnDescriptors + most);
    auto session = comm::EditSession::open(*history_, lost_by(parent.membership()));
    if (!session.ok()) return named(session.status());
    return room.explain(go_on(*session.value(), wish.value()));
  }

 private:
  /// Those that leave come to this rank's memory no more, and what this rank has put to the others'
  /// is there.
  Status keep_apart(const std::vector<MemberId>& leaving) {
    if (Status status = kept_out_.keep_out(leaving, wait_limit_); !status.ok()) return status;
    comm::Communicator& parent = *edit_.handle->communicator;
    std::set<int> without;
    for (const MemberId& member : leaving) without.insert(parent.membership().rank_of(member));
    return parent.memory().flush(without, wait_limit_.deadline_ns());
  }

  /// A member that most others have found dead may live on this host, if they are elsewhere.
  Status keep_out_removed() {
    kept_out_.stay_out();
    const consensus::View view = history_->view();
    std::vector<MemberId> removed;
    for (const MemberId& member : before_) {
      if (!view.holds(member)) removed.push_back(member);
    }
    return kept_out_.keep_out(removed, wait_limit_);
  }

  /// An epoch that could not be built is followed by the next one where that is what the edit says.
  Status go_on(comm::EditSession& session, const consensus::Wish& wish) {
    const bool goes_on = wish.who == consensus::Wish::Leave::kDead && wish.join == 0;
    const uint32_t began_at = history_->epoch();
    for (;;) {
      Status status = session.agree(wish, wait_limit_);
      if (!status.ok()) return history_->epoch() == began_at ? named(status) : strand(status);
      story_.report.agree_ns += story_.lap();
      tell_agreed();
      status = build_and_move(session);
      if (status.ok()) return status;
      if (!goes_on || wait_limit_.over()) return strand(status);
      log().info("{}: {}; the members agree anew", kEdit, status.message());
    }
  }

  Status build_and_move(comm::EditSession& session) {
    comm::Communicator& parent = *edit_.handle->communicator;
    parent.streams().be_quiet();
    if (Status status = keep_out_removed(); !status.ok()) {
      session.give_up(status);
      return status;
    }
    comm::MemorySource memory;
    memory.before = &parent.memory();
    memory.devices = &parent.streams().places();
    EpochMaking pending{*edit_.process, edit_.handle->config, history_, session,
                        memory,         &parent.membership(), {}};
    // A newcomer has no model of this group, and all ranks must choose by the same one.
    const bool has_newcomers = !history_->view().newcomers.empty();
    if (parent.model().is_known && !has_newcomers) pending.inherited = parent.model().model;
    Result<EpochMade> made = build_epoch(pending, wait_limit_);
    story_.report.build_ns += story_.lap();
    if (!made.ok()) return made.status();
    comm::Communicator& next = *made.value().communicator;
    count_changes(next.membership().changes_since(parent.membership()), story_.report);
    story_.report.windows_kept = static_cast<int>(made.value().kept.windows.size());
    story_.report.registrations_kept = static_cast<int>(made.value().kept.registrations);
    tell_lost_rings(parent.streams(), next);
    const auto move_windows = [&] { edit_.process->move_windows(edit_.handle, next); };
    Status moved = move_over(edit_.handle, std::move(made.value().communicator), move_windows);
    if (!moved.ok()) return moved;
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
        "{} at first use, {} made again, {} closed; kept: {} windows, {} registrations; {:.1f} ms",
        kEdit, report.epoch, report.rank, report.ranks, edit_.handle->communicator->id(),
        report.links_kept, report.links_made_for_newcomers, report.links_made_at_first_use,
        report.links_made_again, report.links_closed, report.windows_kept,
        report.registrations_kept,
        static_cast<double>(report.drain_ns + report.agree_ns + report.build_ns + report.move_ns) /
            kNanosecondsPerMillisecond);
  }

  void tell_agreed() const {
    const consensus::View view = history_->view();
    log().info("{}: the members have agreed on epoch {}: {} members, {} of them new; {:.1f} ms",
               kEdit, view.epoch, view.members.size(), view.newcomers.size(),
               static_cast<double>(story_.report.agree_ns) / kNanosecondsPerMillisecond);
  }

  /// As of a communicator that is made, no error; but slower by orders of magnitude than before.
  void tell_lost_rings(const comm::DeviceStreams& before, comm::Communicator& next) const {
    const Status why = next.streams().check_rings();
    if (!before.check_rings().ok() || why.ok()) return;
    log().warning(
        "{}: {}: calls on streams of devices go by the host in epoch {}, since {}; the next edit "
        "makes rings anew",
        kEdit, next.membership().name_of(next.rank()), history_->epoch(), why.message());
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
  const WaitLimit& wait_limit_;
  const std::vector<MemberId> before_;
  comm::RemovedMembers kept_out_;
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
  edit.kills_removed = read.kill_removed != 0;
  if (read.timeout_ns != 0) edit.timeout_ns = read.timeout_ns;
  return {};
}

tuttiResult_t edit_in_place(tuttiComm_t comm, const tuttiEdit_t* given,
                            tuttiEditReport_t* report_out) {
  UseGuard use = guard_use(comm);
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
  const ThreadInCall inside;
  CommState was = comm->state.load(std::memory_order_acquire);
  const bool usable = was == CommState::kAlive || was == CommState::kRevoked;
  if (!usable || !comm->state.compare_exchange_strong(was, CommState::kBusy)) {
    return refuse(comm, check_handle(comm));
  }
  use = UseGuard(nullptr);  // from here on a thread that ends the handle leaves it to this call
  PendingInit pending;
  pending.parent = comm;
  pending.parent_was = was;
  pending.revives_parent = true;
  pending.blocking = comm->config.blocking;
  // The rank stays at its device, whatever the caller has current.
  pending.device = comm->communicator->streams().place();
  const Status prepared = caught_status([&] {
    pending.make =
        [edit](const WaitLimit& wait_limit) -> Result<std::unique_ptr<comm::Communicator>> {
      const WaitLimit limited = wait_limit.at_most(edit.timeout_ns);
      Status status = EditAttempts(edit, limited).run();
      if (!status.ok()) return status;
      return std::unique_ptr<comm::Communicator>();
    };
    return Status();
  });
  if (!prepared.ok()) {
    free_parent(pending, pending.parent_was);
    return refuse(comm, prepared);
  }
  return make_communicator(std::move(pending));
}

Status get_epoch(tuttiComm_t comm, uint32_t* epoch) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  if (epoch == nullptr) return Status::invalid_argument("tuttiCommGetEpoch: epoch is null");
  *epoch = comm->communicator->standing().epoch();
  return {};
}

Status get_member_id(tuttiComm_t comm, int rank, tuttiMemberId* id) {
  const UseGuard use = guard_use(comm);
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

tuttiResult_t tuttiCommGetEpoch(tuttiComm_t comm, uint32_t* epoch) {
  return tutti::api::caught(
      comm, [&] { return tutti::api::report(comm, tutti::api::get_epoch(comm, epoch)); });
}

tuttiResult_t tuttiCommGetMemberId(tuttiComm_t comm, int rank, tuttiMemberId* id) {
  return tutti::api::caught(
      comm, [&] { return tutti::api::report(comm, tutti::api::get_member_id(comm, rank, id)); });
}

}  // extern "C"
