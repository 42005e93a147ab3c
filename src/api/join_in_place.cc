// Newcomers of an edit in place: tuttiCommJoin(), tuttiCommJoinWindows().
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/api/caught.h"
#include "src/api/epoch.h"
#include "src/api/events.h"
#include "src/api/hand_out.h"
#include "src/api/pending_init.h"
#include "src/api/window_memory.h"
#include "src/base/host_name.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/host.h"

namespace tutti::api {
namespace {

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

/// A part of a window that a newcomer brings.
struct NewcomerPart {
  comm::WindowMemory memory;
  tuttiWindow_t* window = nullptr;  // the caller's
};

struct NewcomerCall {
  Process* process = nullptr;
  bootstrap::UniqueId id;
  CommConfig config;
  std::vector<NewcomerPart> parts;
  std::shared_ptr<tuttiComm_t> handle = std::make_shared<tuttiComm_t>(nullptr);
};

/// Until the members let this newcomer in. Each turn begins with the view that they have then.
Result<EpochMade> join_group(const NewcomerCall& call, const WaitLimit& wait_limit) {
  Process& process = *call.process;
  const bootstrap::UniqueId& id = call.id;
  auto listener = listen_as_newcomer(process, id);
  if (!listener.ok()) return listener.status();
  const bootstrap::GroupKey door{id.communicator(), id.key};
  const MemberId self{process.id(),
                      static_cast<uint32_t>(bootstrap::kMaxRanks + process.next_id())};
  wait_limit.waits_for("a newcomer waits for the members to let it in");
  for (;;) {
    const Result<std::string> words =
        bootstrap::ask_as_guest(id.addresses, id.group_port, door, wait_limit);
    if (!words.ok()) return words.status();
    Result<comm::GroupWelcome> welcome = comm::GroupWelcome::open(id.key, words.value());
    if (!welcome.ok()) return welcome.status();
    comm::GroupWelcome& told = welcome.value();
    const auto history = std::make_shared<comm::GroupHistory>(
        self, told.first, listener.value(), std::move(told.view), std::move(told.places));
    auto session = comm::EditSession::open(*history, [](const MemberId&) { return false; });
    if (!session.ok()) return session.status();
    const Result<bool> joined = session.value()->join(wait_limit);
    if (!joined.ok()) return joined.status();
    if (!joined.value()) continue;
    EpochMaking pending{process, call.config, history, *session.value(), {}, nullptr, {}};
    for (const NewcomerPart& part : call.parts) pending.memory.parts.push_back(part.memory);
    return build_epoch(pending, wait_limit);
  }
}

// The windows are the group's in the order of their numbers; so many parts as there are get one.
Result<std::unique_ptr<comm::Communicator>> join_with_parts(const NewcomerCall& call,
                                                            const WaitLimit& wait_limit) {
  Result<EpochMade> made = join_group(call, wait_limit);
  if (!made.ok()) return made.status();
  const std::vector<comm::Window*>& windows = made.value().kept.windows;
  for (size_t i = 0; i < std::min(windows.size(), call.parts.size()); ++i) {
    tuttiWindow* handle = call.process->new_window();
    handle->window = windows[i];
    handle->comm.store(*call.handle, std::memory_order_release);
    *call.parts[i].window = handle;
  }
  return std::move(made.value().communicator);
}

Status read_parts(const char* name, tuttiWindowPart_t* parts, int count, NewcomerCall& call) {
  if (count < 0) return Status::invalid_argument(std::string(name) + ": count is negative");
  if (count > 0 && parts == nullptr) {
    return Status::invalid_argument(std::string(name) + ": parts is null");
  }
  for (int i = 0; i < count; ++i) {
    parts[i].window = nullptr;
    NewcomerPart part;
    part.memory.base = static_cast<std::byte*>(parts[i].base);
    part.memory.bytes = parts[i].bytes;
    part.window = &parts[i].window;
    if (Status status = describe_window(name, *call.process, part.memory); !status.ok()) {
      return status;
    }
    call.parts.push_back(std::move(part));
  }
  return {};
}

/// The arguments of the caller.
struct JoinArguments {
  const char* name;
  tuttiComm_t* comm;
  const tuttiUniqueId* id;
  const tuttiConfig_t* config;
  tuttiWindowPart_t* parts;
  int count;
};

tuttiResult_t join_in_place(const JoinArguments& given) {
  const std::string name = given.name;
  tuttiComm_t* const out = given.comm;
  if (out == nullptr) return report(nullptr, Status::invalid_argument(name + ": comm is null"));
  hand_out(out, nullptr);
  if (given.id == nullptr) return report(nullptr, Status::invalid_argument(name + ": id is null"));
  const Result<bootstrap::UniqueId> id = decode_id(*given.id);
  if (!id.ok()) return report(nullptr, id.status());
  if (id.value().group_port == 0) {
    return report(nullptr, Status::invalid_argument(
                               name + ": this id leads to no communicator; it must come from "
                                      "tuttiCommGetUniqueId of a communicator whose network this "
                                      "host can reach"));
  }
  const Result<CommConfig> config = read_config(given.config, {}, given.name);
  if (!config.ok()) return report(nullptr, config.status());
  const Result<Process*> process = Process::current();
  if (!process.ok()) return report(nullptr, process.status());
  NewcomerCall call;
  call.process = process.value();
  call.id = id.value();
  call.config = config.value();
  const Status parts = read_parts(given.name, given.parts, given.count, call);
  if (!parts.ok()) return report(nullptr, parts);
  const ThreadInCall inside;
  Initializer initializer = [call](const WaitLimit& wait_limit) {
    return join_with_parts(call, wait_limit);
  };
  Result<PendingInit> pending =
      plan_init(out, config.value(), told(given.name, config.value(), std::move(initializer)));
  if (!pending.ok()) return report(nullptr, pending.status());
  *call.handle = pending.value().handle;
  pending.value().who = "a newcomer";
  return make_communicator(std::move(pending).value());
}

}  // namespace
}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiCommJoin(tuttiComm_t* comm, const tuttiUniqueId* id,
                            const tuttiConfig_t* config) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::join_in_place({"tuttiCommJoin", comm, id, config, nullptr, 0});
  });
}

tuttiResult_t tuttiCommJoinWindows(tuttiComm_t* comm, const tuttiUniqueId* id,
                                   const tuttiConfig_t* config, tuttiWindowPart_t* parts,
                                   int count) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::join_in_place({"tuttiCommJoinWindows", comm, id, config, parts, count});
  });
}

}  // extern "C"
