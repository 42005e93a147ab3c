// Making and ending communicators.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/config.h"
#include "plugins/nccl/device_memory.h"
#include "plugins/nccl/settings.h"

namespace tutti::nccl {
namespace {

tuttiUniqueId id_of(const ncclUniqueId& id) {
  static_assert(sizeof(tuttiUniqueId) == sizeof(ncclUniqueId));
  tuttiUniqueId ours;
  std::memcpy(&ours, &id, sizeof ours);
  return ours;
}

/// The value of NCCL_COMM_BLOCKING, which wins over configurations, as in NCCL.
std::optional<bool> blocking_of_process() {
  Setting setting;
  if (!find_setting("NCCL_COMM_BLOCKING", setting)) return std::nullopt;
  const std::string_view value = setting.value;
  return value == "0" || value == "1" ? std::optional(value == "1") : std::nullopt;
}

/// A number of thread blocks: the environment's, if it has one, wins over `configured`, as NCCL's.
int ctas_of_process(std::string_view name, int configured) {
  Setting setting;
  const bool said = find_setting(name, setting) && *setting.origin != '\0';
  // NCCL, too, takes more than it can have for as many as it can.
  constexpr int kMost = 4096;
  return said ? std::stoi(setting.value) : std::min(configured, kMost);
}

/// NULL where a child has its parent's configuration, since the caller gave none.
class TuttiConfig {
 public:
  TuttiConfig(const CommConfig& read, ncclComm_t parent)
      : inherited_(parent != nullptr && !read.given) {
    const bool blocking =
        inherited_ ? parent->traits.blocking : blocking_of_process().value_or(read.blocking);
    config_.blocking = blocking ? 1 : 0;
    config_.name = read.name;
    config_.engine = read.without_kernels ? tuttiEngineCopy : tuttiEngineAuto;
    config_.least_ctas = ctas_of_process("NCCL_MIN_CTAS", read.least_ctas);
    config_.most_ctas = ctas_of_process("NCCL_MAX_CTAS", read.most_ctas);
    // One from the environment and one from the program: as with NCCL the most wins.
    if (config_.most_ctas > 0) {
      config_.least_ctas = std::min(config_.least_ctas, config_.most_ctas);
    }
  }
  bool blocking() const { return config_.blocking == 1; }
  const tuttiConfig_t* get() const { return inherited_ ? nullptr : &config_; }

 private:
  bool inherited_;
  tuttiConfig_t config_ = TUTTI_CONFIG_INITIALIZER;
};

struct RankCall {
  const char* function;
  ncclComm_t* comm;
  int ranks;
  int rank;
  const ncclConfig_t* config;
};

/// Of every call that makes a communicator, before anything is refused: what the caller finds there
/// afterwards is a communicator or NULL.
ncclResult_t make(ncclComm_t* comm, const std::function<ncclResult_t()>& make_it) {
  if (comm != nullptr) *comm = nullptr;
  const DefaultDevice current;
  return part_of_group(make_it());
}

ncclResult_t read_config_of(const RankCall& call, CommConfig& read) {
  const std::string wrong = read_config(call.config, read);
  return wrong.empty() ? ncclSuccess : refuse(call.function, wrong);
}

ncclResult_t init_rank(const RankCall& call, const ncclUniqueId& id) {
  CommConfig read;
  const ncclResult_t bad = read_config_of(call, read);
  if (bad != ncclSuccess) return bad;
  const TuttiConfig config(read, nullptr);
  const Traits traits{current_device(), config.blocking(), !config.blocking()};
  return create(call.comm, call.function, traits, [&](tuttiComm_t* made) {
    return tuttiCommInitRankConfig(made, call.ranks, id_of(id), call.rank, config.get());
  });
}

/// Without a driver any number will do.
ncclResult_t check_devices(int ranks, const int* devices) {
  const int known = count_devices();
  for (int i = 0; known >= 0 && i < ranks; ++i) {
    const int device = devices != nullptr ? devices[i] : i;
    if (device < known) continue;
    return refuse("ncclCommInitAll", "device " + std::to_string(device) +
                                         (devices != nullptr ? " of the list" : " for its rank") +
                                         "; there are " + std::to_string(known) + ", from 0");
  }
  return ncclSuccess;
}

/// One thread makes all the ranks of the group.
ncclResult_t init_all(ncclComm_t* comms, int ranks, const int* devices) {
  // The library's limit, which tutti.h does not show: it must hold before the places are written.
  constexpr int kMost = 1 << 20;
  if (ranks < 0 || ranks > kMost) {
    return refuse("ncclCommInitAll", "the number of ranks must be 0 to " + std::to_string(kMost));
  }
  if (ranks == 0) return ncclSuccess;  // as with NCCL
  if (const ncclResult_t bad = check_devices(ranks, devices); bad != ncclSuccess) return bad;
  std::fill_n(comms, ranks, nullptr);
  // Where a communicator cannot be made this is said at the end of the group.
  const auto all = std::make_shared<std::vector<tuttiComm_t>>(ranks, nullptr);
  start_group();
  // Whatever happens, the group must end.
  ncclResult_t asked = part_of_group(
      caught([&] { return translate(tuttiCommInitAll(all->data(), ranks, devices)); }));
  for (int rank = 0; asked == ncclSuccess && rank < ranks; ++rank) {
    const Traits traits{.device = devices != nullptr ? devices[rank] : rank};
    const auto make = [&](tuttiComm_t* made) {
      const auto take = [all, made, rank] {
        std::atomic_ref(*made).store((*all)[static_cast<size_t>(rank)], std::memory_order_release);
      };
      take();
      at_group_end(take);
      return tuttiSuccess;
    };
    asked = part_of_group(
        caught([&] { return create(comms + rank, "ncclCommInitAll", traits, make); }));
  }
  const ncclResult_t result = end_group();
  if (in_group()) return asked != ncclSuccess ? asked : result;
  if (result == ncclSuccess) return result;
  for (int rank = 0; rank < ranks; ++rank) {
    if (comms[rank] == nullptr) continue;
    tuttiCommAbort(comms[rank]->tutti);
    comms[rank] = nullptr;
  }
  return result;
}

void forget_memory(ncclComm_t comm) {
  const std::lock_guard lock(comm->mutex);
  comm->windows.clear();
  comm->registrations.clear();
  comm->scalars.clear();
}

using MakeFrom = std::function<tuttiResult_t(tuttiComm_t*, const tuttiConfig_t*)>;

/// A child's configuration, and the parent's if NULL was given.
ncclResult_t create_from(ncclComm_t parent, const RankCall& call, const MakeFrom& make) {
  CommConfig read;
  ncclResult_t bad = parent != nullptr ? check_usable(parent, call.function) : ncclSuccess;
  if (bad == ncclSuccess) bad = read_config_of(call, read);
  if (bad != ncclSuccess) return bad;
  const TuttiConfig config(read, parent);
  Traits traits{.blocking = config.blocking()};
  traits.device = parent != nullptr ? parent->traits.device : current_device();
  traits.made_behind = parent != nullptr ? !parent->traits.blocking : !config.blocking();
  return create(call.comm, call.function, traits,
                [&](tuttiComm_t* made) { return make(made, config.get()); });
}

ncclResult_t split(ncclComm_t comm, int color, int key, const RankCall& call) {
  if (comm == nullptr) return refuse(call.function, "the communicator is null");
  return create_from(comm, call, [=](tuttiComm_t* child, auto* ours) {
    return tuttiCommSplit(comm->tutti, color, key, child, ours);
  });
}

struct Leaving {
  const int* ranks;
  int count;
  int flags;
};

ncclResult_t shrink(ncclComm_t comm, const Leaving& leaving, const RankCall& call) {
  if (comm == nullptr) return refuse(call.function, "the communicator is null");
  return create_from(comm, call, [=](tuttiComm_t* child, auto* ours) {
    return tuttiCommShrink(comm->tutti, leaving.ranks, leaving.count, child, ours, leaving.flags);
  });
}

ncclResult_t init_scalable(const RankCall& call, const ncclUniqueId* ids, int id_count) {
  if (ids == nullptr || id_count < 1) {
    return refuse(call.function, "at least one unique id is needed");
  }
  if (id_count > call.ranks) {  // the list may not be as long as that
    return refuse(call.function, std::to_string(id_count) + " unique ids for " +
                                     std::to_string(call.ranks) +
                                     " ranks: at most one for each rank");
  }
  std::vector<tuttiUniqueId> ours(static_cast<size_t>(id_count));
  std::memcpy(ours.data(), ids, ours.size() * sizeof ours[0]);
  return create_from(nullptr, call, [&](tuttiComm_t* made, const tuttiConfig_t* given) {
    return tuttiCommInitRankScalable(made, call.ranks, call.rank, id_count, ours.data(), given);
  });
}

ncclResult_t grow(ncclComm_t comm, const ncclUniqueId* id, const RankCall& call) {
  return create_from(comm, call, [&](tuttiComm_t* child, auto* ours) {
    const tuttiUniqueId given = id != nullptr ? id_of(*id) : tuttiUniqueId{};
    const tuttiComm_t old = comm != nullptr ? tuttiComm_t{comm->tutti} : nullptr;
    return tuttiCommGrow(old, call.ranks, id != nullptr ? &given : nullptr, call.rank, child, ours);
  });
}

/// A handle without a communicator is ended already, as in NCCL: a split without a colour gives
/// NULL, and programs end it with the others.
ncclResult_t unless_null(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t)) {
  return comm == nullptr ? ncclSuccess : part_of_group(end(comm));
}

constexpr auto kPause = std::chrono::microseconds(100);

/// NCCL's destroy and abort have ended when they return, whatever the configuration says: programs
/// take anything but success for an error. Waits as long as that of a blocking communicator may
/// take.
tuttiResult_t await_end(tuttiComm_t comm) {
  tuttiResult_t state = tuttiInProgress;
  while (tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInProgress) {
    std::this_thread::sleep_for(kPause);
  }
  return state;
}

ncclResult_t destroy(ncclComm_t comm) {
  if (const ncclResult_t bad = check_handle(comm, "ncclCommDestroy"); bad != ncclSuccess)
    return bad;
  comm->destroyers.fetch_add(1);
  tuttiResult_t ended = tuttiCommDestroy(comm->tutti);
  if (ended == tuttiInProgress) ended = await_end(comm->tutti);
  comm->destroyers.fetch_sub(1);
  if (ended == tuttiInvalidUsage) return translate(ended);  // it was refused
  forget_memory(comm);
  const std::lock_guard no_abort(comm->abort_mutex);
  State before = comm->state.load(std::memory_order_acquire);
  while (before != State::kAborted &&
         !comm->state.compare_exchange_weak(before, State::kDestroyed)) {
  }
  return translate(ended);
}

ncclResult_t finalize(ncclComm_t comm) { return ask(comm, "ncclCommFinalize", tuttiCommFinalize); }

/// One after the other: a second abort must know whether the first one was refused. The question
/// for the asynchronous error is never refused behind an abort, so the mark is set before.
ncclResult_t abort(ncclComm_t comm) {
  constexpr char kName[] = "ncclCommAbort";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  const std::lock_guard one_at_a_time(comm->abort_mutex);
  const State before = comm->state.exchange(State::kAborted, std::memory_order_acq_rel);
  if (before == State::kAborted) return misuse(kName, "the communicator was aborted");
  // It makes an abort of the destroy that another thread is in, and tutti.h refuses it, since the
  // end is the other's. It refuses without effect what the open group of this thread holds.
  const bool ends_destroy = !in_group() && comm->destroyers.load() != 0;
  tuttiResult_t ended = tuttiCommAbort(comm->tutti);
  if (ended == tuttiInProgress) ended = await_end(comm->tutti);
  if (ended == tuttiInvalidUsage && ends_destroy) {
    while (comm->destroyers.load() != 0) std::this_thread::sleep_for(kPause);
    ended = tuttiSuccess;
  }
  if (ended == tuttiInvalidUsage) {  // refused, and it lives on
    comm->state.store(before, std::memory_order_release);
  } else {
    forget_memory(comm);
  }
  return translate(ended);
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  return caught([&]() -> ncclResult_t {
    if (id == nullptr) return refuse("ncclGetUniqueId", "the place for the id is null");
    tuttiUniqueId ours;
    const ncclResult_t result = translate(tuttiGetUniqueId(&ours));
    if (result == ncclSuccess) std::memcpy(id, &ours, sizeof ours);
    return result;
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return caught([&]() -> ncclResult_t {
    return make(comm, [&] {
      return init_rank({"ncclCommInitRank", comm, ranks, rank, nullptr}, id);
    });
  });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return caught([&]() -> ncclResult_t {
    return make(comm, [&] {
      return init_rank({"ncclCommInitRankConfig", comm, ranks, rank, config}, id);
    });
  });
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                       ncclUniqueId* ids, ncclConfig_t* config) {
  return caught([&]() -> ncclResult_t {
    return make(comm, [&] {
      return init_scalable({"ncclCommInitRankScalable", comm, ranks, rank, config}, ids, id_count);
    });
  });
}

ncclResult_t pncclCommInitAll(ncclComm_t* comms, int ranks, const int* devices) {
  return caught([&] {
    return part_of_group(comms == nullptr
                             ? refuse("ncclCommInitAll", "the place for communicators is null")
                             : init_all(comms, ranks, devices));
  });
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                            ncclConfig_t* config) {
  return caught([&]() -> ncclResult_t {
    return make(made, [&] {
      return split(comm, color, key, {"ncclCommSplit", made, 0, 0, config});
    });
  });
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                             ncclConfig_t* config, int flags) {
  return caught([&]() -> ncclResult_t {
    return make(made, [&] {
      return shrink(comm, {excluded, excluded_count, flags},
                    {"ncclCommShrink", made, 0, 0, config});
    });
  });
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return caught([&]() -> ncclResult_t {
    if (id == nullptr) return refuse("ncclCommGetUniqueId", "the place for the id is null");
    tuttiUniqueId ours;
    const ncclResult_t result = ask(comm, "ncclCommGetUniqueId", [&ours](tuttiComm_t tutti) {
      return tuttiCommGetUniqueId(tutti, &ours);
    });
    if (result == ncclSuccess) std::memcpy(id, &ours, sizeof ours);
    return result;
  });
}

ncclResult_t pncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                           ncclComm_t* made, ncclConfig_t* config) {
  return caught([&]() -> ncclResult_t {
    return make(made, [&] { return grow(comm, id, {"ncclCommGrow", made, ranks, rank, config}); });
  });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return caught([&] { return unless_null(comm, finalize); });
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return caught([&] { return unless_null(comm, destroy); });
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return caught([&] { return unless_null(comm, abort); });
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags) {
  return caught([&]() -> ncclResult_t {
    if (comm == nullptr) return ncclSuccess;
    return part_of_group(ask(comm, "ncclCommRevoke",
                             [flags](tuttiComm_t tutti) { return tuttiCommRevoke(tutti, flags); }));
  });
}

[[gnu::weak, gnu::alias("pncclGetUniqueId")]] decltype(pncclGetUniqueId) ncclGetUniqueId;
[[gnu::weak, gnu::alias("pncclCommInitRank")]] decltype(pncclCommInitRank) ncclCommInitRank;
[[gnu::weak,
  gnu::alias("pncclCommInitRankConfig")]] decltype(pncclCommInitRankConfig) ncclCommInitRankConfig;
[[gnu::weak,
  gnu::alias(
      "pncclCommInitRankScalable")]] decltype(pncclCommInitRankScalable) ncclCommInitRankScalable;
[[gnu::weak, gnu::alias("pncclCommInitAll")]] decltype(pncclCommInitAll) ncclCommInitAll;
[[gnu::weak, gnu::alias("pncclCommSplit")]] decltype(pncclCommSplit) ncclCommSplit;
[[gnu::weak, gnu::alias("pncclCommShrink")]] decltype(pncclCommShrink) ncclCommShrink;
[[gnu::weak,
  gnu::alias("pncclCommGetUniqueId")]] decltype(pncclCommGetUniqueId) ncclCommGetUniqueId;
[[gnu::weak, gnu::alias("pncclCommGrow")]] decltype(pncclCommGrow) ncclCommGrow;
[[gnu::weak, gnu::alias("pncclCommFinalize")]] decltype(pncclCommFinalize) ncclCommFinalize;
[[gnu::weak, gnu::alias("pncclCommDestroy")]] decltype(pncclCommDestroy) ncclCommDestroy;
[[gnu::weak, gnu::alias("pncclCommAbort")]] decltype(pncclCommAbort) ncclCommAbort;
[[gnu::weak, gnu::alias("pncclCommRevoke")]] decltype(pncclCommRevoke) ncclCommRevoke;

}  // extern "C"
