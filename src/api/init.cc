// How groups begin: the id, and one rank after another.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/api/caught.h"
#include "src/api/create.h"
#include "src/api/device.h"
#include "src/api/events.h"
#include "src/api/hand_out.h"
#include "src/api/pending_init.h"
#include "src/api/submit.h"
#include "src/bootstrap/place.h"

namespace tutti::api {
namespace {

// At the place of TUTTI_ID every rank may ask; elsewhere, and for ranks of this process, each id is
// new and its own.
Status get_unique_id(tuttiUniqueId* id, bool for_others) {
  if (id == nullptr) return Status::invalid_argument("tuttiGetUniqueId: id is null");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  const Config& config = *process.value()->env().config;
  const auto place = parse_place(config.id);
  const Result<bootstrap::UniqueId> made =
      place && for_others ? bootstrap::id_at(*place, config, process.value()->next_id(),
                                             process.value()->wait_limit(nullptr))
                          : bootstrap::create_unique_id(config, process_environment());
  if (!made.ok()) return made.status();
  *id = encode_id(made.value());
  return {};
}

Status get_public_id(tuttiUniqueId* id) {
  if (id == nullptr) return Status::invalid_argument("tuttiGetPublicId: id is null");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  const Config& config = *process.value()->env().config;
  if (!config.key) {
    return Status::invalid_usage(
        "tuttiGetPublicId: an id without a key needs the job's: set TUTTI_KEY_FILE on every rank "
        "to "
        "a file with mode 0600 that holds the output of 'openssl rand -hex 32'");
  }
  const auto place = parse_place(config.id);
  Result<bootstrap::UniqueId> made =
      place ? bootstrap::id_at(*place, config, process.value()->next_id(),
                               process.value()->wait_limit(nullptr))
            : bootstrap::create_unique_id(config, process_environment(), &*config.key);
  if (!made.ok()) return made.status();
  if (place) made.value().make_public(*config.key);
  *id = encode_id(made.value());
  return {};
}

struct RankCall {
  const char* name;
  tuttiComm_t* comm;
  int ranks;
  int rank;
  const tuttiConfig_t* config;
};

Result<std::vector<bootstrap::UniqueId>> decode_ids(std::span<const tuttiUniqueId> bytes) {
  std::vector<bootstrap::UniqueId> ids;
  for (const tuttiUniqueId& one : bytes) {
    Result<bootstrap::UniqueId> id = decode_id(one);
    if (!id.ok()) return id.status();
    ids.push_back(std::move(id).value());
  }
  if (ids.size() > 1 &&
      std::any_of(ids.begin(), ids.end(), [](const auto& id) { return id.rank_0_opens; })) {
    return Status::invalid_usage(
        "ids at the place of TUTTI_ID (NCCL_COMM_ID) meet at one server: pass one id");
  }
  return ids;
}

Result<PendingInit> plan_rank(const RankCall& call, std::span<const tuttiUniqueId> bytes) {
  const std::string name = call.name;
  if (call.comm == nullptr) return Status::invalid_argument(name + ": comm is null");
  hand_out(call.comm, nullptr);
  if (call.ranks < 1 || call.rank < 0 || call.rank >= call.ranks) {
    return Status::invalid_argument(name + ": rank " + std::to_string(call.rank) + " of " +
                                    std::to_string(call.ranks) + " ranks");
  }
  if (Status status = check_size(call.name, call.ranks); !status.ok()) return status;
  const Result<CommConfig> config = read_config(call.config, {}, call.name);
  if (!config.ok()) return config.status();
  const Result<std::vector<bootstrap::UniqueId>> ids = decode_ids(bytes);
  if (!ids.ok()) return ids.status();
  const std::string who = "rank " + std::to_string(call.rank) + " of " + std::to_string(call.ranks);
  const Result<Process*> process = Process::current();
  if (!process.ok()) return of_rank(who, process.status());
  const CreateOptions creation =
      create_options_of(*process.value()->env().config, ids.value(), call.ranks, call.rank);
  tell_origin(*process.value(), creation, ids.value().front().keyless);
  Initializer initializer = [at = process.value(), config = config.value(),
                             creation](const WaitLimit& wait_limit) {
    return create_communicator(*at, creation, config, wait_limit);
  };
  Result<PendingInit> pending =
      plan_init(call.comm, config.value(), told(call.name, config.value(), std::move(initializer)));
  if (pending.ok()) pending.value().who = who;
  return pending;
}

tuttiResult_t init_rank(const RankCall& call, std::span<const tuttiUniqueId> ids) {
  const ThreadInCall inside;
  Result<PendingInit> pending = plan_rank(call, ids);
  return pending.ok() ? make_communicator(std::move(pending).value())
                      : refuse(nullptr, pending.status());
}

Status begin_all(tuttiComm_t* comms, int ranks, const int* devices) {
  if (comms == nullptr) return Status::invalid_argument("tuttiCommInitAll: comms is null");
  if (ranks < 1) {
    return Status::invalid_argument("tuttiCommInitAll: " + std::to_string(ranks) + " ranks");
  }
  if (Status status = check_size("tuttiCommInitAll", ranks); !status.ok()) return status;
  std::fill_n(comms, ranks, nullptr);
  const int known = device().count();
  for (int i = 0; devices != nullptr && i < ranks; ++i) {
    if (devices[i] >= 0 && (known == 0 || devices[i] < known)) continue;
    return Status::invalid_argument(
        "tuttiCommInitAll: devices[" + std::to_string(i) + "] is " + std::to_string(devices[i]) +
        (known == 0 ? "" : "; there are " + std::to_string(known) + ", from 0"));
  }
  return {};
}

/// Makes the rank's device current for as long as this is kept; null: it is what was current
/// before.
Result<std::shared_ptr<const void>> enter_device_of(int rank, int ranks, const int* devices) {
  const bool has_one = devices != nullptr ? device().count() > 0 : ranks <= device().count();
  if (!has_one) return std::shared_ptr<const void>();
  const Result<exec::StreamPlace> place =
      device().place_of_device(devices != nullptr ? devices[rank] : rank);
  if (!place.ok()) return place.status();
  return device().enter(place.value());
}

// As one group of calls, which may be part of a larger one.
tuttiResult_t init_all(tuttiComm_t* comms, int ranks, const int* devices) {
  if (Status status = begin_all(comms, ranks, devices); !status.ok()) {
    return refuse(nullptr, status);
  }
  tuttiUniqueId id;
  if (Status status = get_unique_id(&id, false); !status.ok()) {
    return refuse(nullptr, status);
  }
  (void)group_start();
  for (int rank = 0; rank < ranks; ++rank) {
    // An error is the group's, which must end whatever happens.
    (void)caught(nullptr, [&] {
      const Result<std::shared_ptr<const void>> current = enter_device_of(rank, ranks, devices);
      if (!current.ok()) return refuse(nullptr, current.status());
      return init_rank({"tuttiCommInitAll", comms + rank, ranks, rank, nullptr}, {&id, 1});
    });
  }
  const tuttiResult_t result = group_end();
  if (result == tuttiSuccess) return result;
  for (int rank = 0; rank < ranks; ++rank) {
    if (comms[rank] == nullptr) continue;
    (void)tuttiCommAbort(comms[rank]);
    comms[rank] = nullptr;
  }
  return result;
}

}  // namespace
}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return tutti::api::caught(
      nullptr, [&] { return tutti::api::report(nullptr, tutti::api::get_unique_id(id, true)); });
}

tuttiResult_t tuttiGetPublicId(tuttiUniqueId* id) {
  return tutti::api::caught(
      nullptr, [&] { return tutti::api::report(nullptr, tutti::api::get_public_id(id)); });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::init_rank({"tuttiCommInitRank", comm, ranks, rank, nullptr}, {&id, 1});
  });
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank,
                                      const tuttiConfig_t* config) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::init_rank({"tuttiCommInitRankConfig", comm, ranks, rank, config}, {&id, 1});
  });
}

tuttiResult_t tuttiCommInitRankScalable(tuttiComm_t* comm, int ranks, int rank, int id_count,
                                        const tuttiUniqueId* ids, const tuttiConfig_t* config) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    constexpr const char* kName = "tuttiCommInitRankScalable";
    if (ids == nullptr || id_count < 1 || id_count > ranks) {
      if (comm != nullptr) tutti::api::hand_out(comm, nullptr);
      return tutti::api::refuse(
          nullptr, tutti::Status::invalid_argument(
                       std::string(kName) + ": " + std::to_string(id_count) + " ids for " +
                       std::to_string(ranks) + " ranks: at least one, at most one for each rank"));
    }
    return tutti::api::init_rank({kName, comm, ranks, rank, config},
                                 {ids, static_cast<size_t>(id_count)});
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks, const int* devices) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::init_all(comms, ranks, devices); });
}

}  // extern "C"
