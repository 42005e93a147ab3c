// Communicators made from others: split, shrink, grow.
#include "src/comm/edit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "src/api/caught.h"
#include "src/api/create.h"
#include "src/api/events.h"
#include "src/api/hand_out.h"
#include "src/api/parent.h"
#include "src/api/pending_init.h"
#include "src/api/submit.h"
#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/secrets.h"
#include "src/bootstrap/server.h"
#include "src/comm/meeting.h"

namespace tutti::api {
namespace {

/// One rank's part of an edit, with all that it needs of the parent.
struct Edit {
  const char* call = "";  // "tuttiCommSplit"
  Process* process = nullptr;
  comm::Communicator* parent = nullptr;  // lives while it is busy
  tuttiComm* handle = nullptr;           // the parent's
  std::shared_ptr<const comm::Roster> roster;
  std::vector<int> members;  // who meets; all ranks of the parent but those a shrink leaves out
  comm::Proposal proposal;
  CommConfig config;         // of what is made
  bool blocking = true;      // the call
  bool needs_health = true;  // not where the parent is broken or revoked
  bool abort = false;
  int ranks = 0;                          // grow: of the new group
  std::optional<bootstrap::UniqueId> id;  // grow: if this rank was passed it
};

// Nothing of the parent may run any more.
Status await_quiet(const Edit& edit, const WaitLimit& wait_limit) {
  const Status quiet =
      quiesce(edit.call, edit.handle, edit.abort,
              "revoke the communicator, or shrink it with TUTTI_SHRINK_ABORT", wait_limit);
  if (!quiet.ok() || !edit.needs_health) return quiet;
  return edit.parent->failure();
}

using Child = Result<std::unique_ptr<comm::Communicator>>;

struct EditAgreement {
  std::shared_ptr<comm::Meeting> meeting;
  std::vector<comm::Proposal> proposals;
};

// Of meetings.
constexpr int kOfHealthy = 0, kOfOthers = 1;

Result<EditAgreement> meet(const Edit& edit, const WaitLimit& wait_limit) {
  if (Status status = await_quiet(edit, wait_limit); !status.ok()) return status;
  // Sockets that one goes there with, and a server's.
  constexpr uint64_t kOwn = 8;
  const bool serves = edit.members.front() == edit.roster->rank;
  const DescriptorRoom::Claim room(edit.process->descriptors(),
                                   kOwn + (serves ? edit.members.size() : 0));
  comm::Meeting::MeetingPurpose purpose{edit.call, wait_limit};
  // A rank whose communicator fails before it has come does not come; what it does then, to go on,
  // is not what others still wait for.
  purpose.meeting_number = edit.needs_health ? kOfHealthy : kOfOthers;
  if (edit.needs_health)
    purpose.sense = [parent = edit.parent] { return parent->failure_of_any(); };
  auto meeting = std::make_shared<comm::Meeting>(edit.roster, edit.members, std::move(purpose));
  auto blobs = meeting->exchange(edit.proposal.encode());
  if (!blobs.ok() && !edit.parent->failure().ok()) edit.parent->give_up();
  if (!blobs.ok()) return room.explain(blobs.status());
  auto proposals = comm::agree(blobs.value(), edit.members);
  if (!proposals.ok()) return proposals.status();
  return EditAgreement{std::move(meeting), std::move(proposals).value()};
}

// Split and shrink: the cards travel in the second exchange of the meeting, everybody's to
// everybody.
Child divide(const Edit& edit, const WaitLimit& wait_limit) {
  Result<EditAgreement> agreed = meet(edit, wait_limit);
  if (!agreed.ok()) return agreed.status();
  const std::shared_ptr<comm::Meeting>& meeting = agreed.value().meeting;
  const std::vector<comm::Proposal>& proposals = agreed.value().proposals;
  const int color = edit.proposal.color;
  if (color == TUTTI_SPLIT_NOCOLOR) {
    const auto others = meeting->exchange("");
    if (!others.ok()) return others.status();
    return std::unique_ptr<comm::Communicator>();
  }
  const std::vector<int> chosen = comm::with_color(proposals, color);
  const auto me = std::find(edit.members.begin(), edit.members.end(), edit.roster->rank);
  const int index = static_cast<int>(me - edit.members.begin());
  const std::string salt = comm::salt_of(proposals, color);
  CreateOptions creation;
  creation.ranks = static_cast<int>(chosen.size());
  creation.rank = static_cast<int>(std::find(chosen.begin(), chosen.end(), index) - chosen.begin());
  creation.member_number = edit.parent->membership().member().number;
  creation.key = bootstrap::derive_key(edit.roster->key, salt);
  bootstrap::UniqueId identity;
  identity.job = bootstrap::derive_job(edit.roster->key, salt);
  creation.communicator = identity.communicator();
  creation.places = {edit.roster->places[static_cast<size_t>(edit.roster->rank)].address};
  creation.exchange = [meeting, chosen](std::string_view card,
                                        const WaitLimit&) -> Result<std::vector<std::string>> {
    auto all = meeting->exchange(card);
    if (!all.ok()) return all.status();
    std::vector<std::string> cards;
    for (int at : chosen) cards.push_back(std::move(all.value()[static_cast<size_t>(at)]));
    return cards;
  };
  creation.decline = [meeting] { meeting->decline(); };
  if (edit.parent->model().is_known) creation.inherited = edit.parent->model().model;
  return create_communicator(*edit.process, creation, edit.config, wait_limit);
}

// The id's key is the new group's, and the meeting hides nothing from who listens on the wire.
transport::JobKey sealing_key(const comm::Roster& roster) {
  return bootstrap::derive_key(roster.key, "grow");
}

Result<bootstrap::UniqueId> id_for_all(const Edit& edit,
                                       const std::vector<comm::Proposal>& proposals) {
  std::string secret;
  for (size_t i = 0; i < proposals.size(); ++i) {
    if (proposals[i].secret.empty()) continue;
    Result<std::string> opened = bootstrap::open(sealing_key(*edit.roster), proposals[i].secret);
    if (!opened.ok()) return opened.status();
    if (!secret.empty() && secret != opened.value()) {
      return Status::invalid_usage("tuttiCommGrow: rank " + std::to_string(i) +
                                   " passed another id than a lower rank");
    }
    secret = std::move(opened).value();
  }
  if (secret.empty()) {
    return Status::invalid_usage(
        "tuttiCommGrow: no rank of the communicator passed the id from tuttiCommGetUniqueId");
  }
  return decode_id({reinterpret_cast<const uint8_t*>(secret.data()), secret.size()});
}

Result<bootstrap::UniqueId> agree_on_id(const Edit& edit, const WaitLimit& wait_limit) {
  const Result<EditAgreement> agreed = meet(edit, wait_limit);
  if (!agreed.ok()) return agreed.status();
  return id_for_all(edit, agreed.value().proposals);
}

// An old rank that has failed does not come to where the new ones wait. One that is done may end
// the parent while the last answers are on their way: they have the time to arrive.
WaitLimit::Sense lasting_failure(comm::Communicator* parent) {
  constexpr uint64_t kArrivalNs = 2 * kNanosecondsPerSecond;
  return [parent, since_ns = uint64_t{0}]() mutable {
    Status failure = parent->failure_of_any();
    if (!failure.ok() && since_ns == 0) since_ns = monotonic_ns();
    return failure.ok() || monotonic_ns() - since_ns < kArrivalNs ? Status() : failure;
  };
}

Child grow(const Edit& edit, const WaitLimit& wait_limit) {
  const Result<bootstrap::UniqueId> id = agree_on_id(edit, wait_limit);
  if (!id.ok()) {
    // The new ranks wait for this one where the id says.
    if (edit.id) bootstrap::decline({&*edit.id, 1}, edit.roster->rank, edit.ranks);
    return id.status();
  }
  const Config& environment = *edit.process->env().config;
  CreateOptions creation =
      create_options_of(environment, {id.value()}, edit.ranks, edit.roster->rank);
  creation.member_number = edit.parent->membership().member().number;
  const WaitLimit sensible = wait_limit.as_long_as(lasting_failure(edit.parent));
  Child made = create_communicator(*edit.process, creation, edit.config, sensible);
  // The new ranks know nothing of the old ones.
  if (!made.ok() && sensible.has_lost_purpose()) attempt(creation.decline);
  return made;
}

struct EditCall {
  const char* name;
  tuttiComm_t comm;
  tuttiComm_t* made;
  const tuttiConfig_t* config;
  bool may_be_revoked;
};

// Everything that can be refused without asking anybody. The caller holds a UseGuard until start()
// has changed the state.
Result<Edit> begin_edit(const EditCall& call) {
  if (call.made == nullptr) {
    return Status::invalid_argument(std::string(call.name) + ": made is null");
  }
  hand_out(call.made, nullptr);
  Status usable = check_parent({call.name, call.comm, call.may_be_revoked});
  if (!usable.ok()) return usable;
  const Result<CommConfig> config = read_config(call.config, call.comm->config, call.name);
  if (!config.ok()) return config.status();
  const Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  Edit edit;
  edit.call = call.name;
  edit.process = process.value();
  edit.parent = call.comm->communicator.get();
  edit.handle = call.comm;
  edit.roster = edit.parent->membership().roster();
  edit.config = config.value();
  edit.blocking = call.comm->config.blocking;  // there may be no other communicator to ask
  edit.needs_health = !is_revoked(*call.comm);
  edit.proposal.what = call.name;
  edit.proposal.nonce = bootstrap::new_nonce();
  edit.members = comm::survivors(edit.parent->ranks(), nullptr, 0).value();
  return edit;
}

tuttiResult_t start(const EditCall& call, const Edit& edit,
                    Child (*make)(const Edit&, const WaitLimit&), UseGuard use) {
  const ThreadInCall inside;
  CommState was = call.comm->state.load(std::memory_order_acquire);
  const bool usable =
      was == CommState::kAlive || (was == CommState::kRevoked && call.may_be_revoked);
  if (!usable || !call.comm->state.compare_exchange_strong(was, CommState::kBusy)) {
    return refuse(call.comm, check_handle(call.comm));
  }
  use = UseGuard(nullptr);  // from here on whoever ends the parent leaves it to this call
  PendingInit pending;
  pending.parent = call.comm;
  pending.parent_was = was;
  const Status ready = caught_status([&] {
    Initializer initializer =
        told(call.name, edit.config,
             [edit, make](const WaitLimit& wait_limit) { return make(edit, wait_limit); });
    if (edit.proposal.color == TUTTI_SPLIT_NOCOLOR) {
      pending.make = std::move(initializer);
      return Status();
    }
    Result<PendingInit> planned = plan_init(call.made, edit.config, std::move(initializer));
    if (planned.ok()) pending = std::move(planned).value();
    return planned.status();
  });
  if (!ready.ok()) {
    free_parent(pending, pending.parent_was);
    return refuse(call.comm, ready);
  }
  // Whatever the caller has current: one thread may have ranks on several devices.
  const exec::StreamPlace& place = edit.parent->streams().place();
  if (place.context != nullptr) pending.device = place;
  pending.blocking = edit.blocking;
  pending.parent = call.comm;
  pending.parent_was = was;
  return make_communicator(std::move(pending));
}

tuttiResult_t split(const EditCall& call, int color, int key) {
  UseGuard use = guard_use(call.comm);
  Result<Edit> edit = begin_edit(call);
  if (!edit.ok()) return refuse(call.comm, edit.status());
  if (color < TUTTI_SPLIT_NOCOLOR) {
    return refuse(call.comm,
                  Status::invalid_argument("tuttiCommSplit: color is " + std::to_string(color) +
                                           "; it is TUTTI_SPLIT_NOCOLOR or >= 0"));
  }
  edit.value().proposal.color = color;
  edit.value().proposal.key = key;
  return start(call, edit.value(), divide, std::move(use));
}

Status plan_shrink(Edit& edit, const int* excluded, int excluded_count, int flags) {
  const std::string name = edit.call;
  if (flags != TUTTI_SHRINK_DEFAULT && flags != TUTTI_SHRINK_ABORT) {
    return Status::invalid_argument(name + ": flags is TUTTI_SHRINK_DEFAULT or TUTTI_SHRINK_ABORT");
  }
  if (excluded_count < 0 || (excluded == nullptr && excluded_count > 0)) {
    return Status::invalid_argument(name + ": excluded is null, or its count is negative");
  }
  auto left = comm::survivors(static_cast<int>(edit.members.size()), excluded, excluded_count);
  if (!left.ok()) {
    return Status::invalid_argument(name + ": " + std::string(left.status().message()));
  }
  if (!std::binary_search(left.value().begin(), left.value().end(), edit.roster->rank)) {
    return Status::invalid_argument(name + ": rank " + std::to_string(edit.roster->rank) +
                                    " excludes itself; only survivors call it");
  }
  edit.members = std::move(left).value();
  edit.needs_health = false;
  edit.abort = flags == TUTTI_SHRINK_ABORT;
  // The list as people read it may leave something out.
  const std::string list = list_ranks(edit.members);
  std::string all;
  for (int rank : edit.members) all += std::to_string(rank) + " ";
  const bootstrap::JobId hash = bootstrap::derive_job({}, all);
  constexpr size_t kShownBytes = 4;
  edit.proposal.argument = "to the ranks " + list + ", list " +
                           to_hex({reinterpret_cast<const char*>(hash.data()), kShownBytes});
  return {};
}

Status plan_grow(Edit& edit, int ranks, const tuttiUniqueId* id, int rank) {
  const auto old = static_cast<int>(edit.members.size());
  if (rank != -1) {
    return Status::invalid_argument("tuttiCommGrow: a rank of the communicator passes rank -1, " +
                                    std::to_string(rank) + " is for new ranks with comm NULL");
  }
  if (ranks <= old) {
    return Status::invalid_argument("tuttiCommGrow: " + std::to_string(ranks) +
                                    " ranks are not more than the " + std::to_string(old) +
                                    " that there are");
  }
  if (Status status = check_size("tuttiCommGrow", ranks); !status.ok()) return status;
  edit.ranks = ranks;
  edit.blocking = edit.config.blocking;  // as for the new ranks
  edit.proposal.argument = "to " + std::to_string(ranks) + " ranks";
  if (id == nullptr) return {};
  const Result<bootstrap::UniqueId> decoded = decode_id(*id);
  if (!decoded.ok()) return decoded.status();
  edit.id = decoded.value();
  edit.proposal.secret =
      bootstrap::seal(sealing_key(*edit.roster), {id->internal, sizeof id->internal});
  return {};
}

Status get_unique_id(tuttiComm_t comm, tuttiUniqueId* id) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (id == nullptr) return Status::invalid_argument("tuttiCommGetUniqueId: id is null");
  const Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  // Not at the place of TUTTI_ID: it is the caller that hands this one on.
  const auto made =
      bootstrap::create_unique_id(*process.value()->env().config, process_environment());
  if (!made.ok()) return made.status();
  bootstrap::UniqueId named = made.value();
  Result<std::shared_ptr<comm::GroupHistory>> history = comm->communicator->standing().history();
  if (!history.ok()) return history.status();
  const comm::GroupHistory& known = *history.value();
  const comm::RankAddress& own = known.place(known.self());
  const auto& announced = named.addresses;
  // A newcomer of another network than the ranks' own cannot join.
  if (std::find(announced.begin(), announced.end(), own.address) != announced.end()) {
    named.group_port = own.port;
    history.value()->remember_id({named.communicator(), named.key});
  }
  *id = encode_id(named);
  return {};
}

}  // namespace
}  // namespace tutti::api

using namespace tutti::api;

extern "C" {

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* made,
                             const tuttiConfig_t* config) {
  return tutti::api::caught(comm, [&] {
    return split({"tuttiCommSplit", comm, made, config, true}, color, key);
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excluded, int excluded_count,
                              tuttiComm_t* made, const tuttiConfig_t* config, int flags) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    const EditCall call{"tuttiCommShrink", comm, made, config, true};
    UseGuard use = guard_use(comm);
    tutti::Result<Edit> edit = begin_edit(call);
    if (!edit.ok()) return refuse(comm, edit.status());
    const tutti::Status status = plan_shrink(edit.value(), excluded, excluded_count, flags);
    return status.ok() ? start(call, edit.value(), divide, std::move(use)) : refuse(comm, status);
  });
}

tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id) {
  return tutti::api::caught(comm, [&] { return report(comm, get_unique_id(comm, id)); });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int ranks, const tuttiUniqueId* id, int rank,
                            tuttiComm_t* made, const tuttiConfig_t* config) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    if (comm == nullptr && id != nullptr) {
      return tuttiCommInitRankConfig(made, ranks, *id, rank, config);
    }
    const EditCall call{"tuttiCommGrow", comm, made, config, false};
    UseGuard use = guard_use(comm);
    tutti::Result<Edit> edit = begin_edit(call);
    if (!edit.ok()) return refuse(comm, edit.status());
    const tutti::Status status = plan_grow(edit.value(), ranks, id, rank);
    return status.ok() ? start(call, edit.value(), grow, std::move(use)) : refuse(comm, status);
  });
}

}  // extern "C"
