// Communicators of tutti.h: made, asked, destroyed.
#include <algorithm>
#include <cstring>
#include <utility>

#include "src/api/process.h"
#include "src/api/submit.h"
#include "src/bootstrap/host.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/server.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"

namespace tutti::api {
namespace {

// How long destroy waits for the other ranks to be done with this one's memory.
constexpr uint64_t kLeaveNs = 10 * kNanosecondsPerSecond;

Status get_unique_id(tuttiUniqueId* id) {
  if (id == nullptr) return Status::invalid_argument("tuttiGetUniqueId: id is null");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  Result<bootstrap::UniqueId> made = bootstrap::create_unique_id(*process.value()->env().config);
  if (!made.ok()) return made.status();
  const bootstrap::UniqueIdBytes bytes = made.value().encode();
  static_assert(sizeof(tuttiUniqueId) == bootstrap::kUniqueIdBytes);
  std::memcpy(id->internal, bytes.data(), bytes.size());
  return {};
}

Result<std::string> listening_address(const Config& config) {
  Result<std::vector<bootstrap::Interface>> all = bootstrap::list_interfaces();
  if (!all.ok()) return all.status();
  Result<std::vector<bootstrap::Interface>> chosen =
      bootstrap::choose_interfaces(all.value(), config);
  if (!chosen.ok()) return chosen.status();
  return chosen.value().front().address.text();
}

Result<comm::CommunicatorOptions> options_for(Process& process, const bootstrap::UniqueId& id,
                                              int ranks, int rank) {
  const Config& config = *process.env().config;
  comm::CommunicatorOptions options;
  options.algorithms = registry::algorithms();
  options.watch = &process.watch();
  comm::MembershipOptions& membership = options.membership;
  membership.env = &process.env();
  membership.transports = registry::transports();
  membership.layout = exec::ArenaLayout(config.ring_bytes, exec::PairExecutor::kPairBytes, ranks);
  const uint64_t timeout = config.init_timeout_ns;
  membership.deadline_ns = timeout == kNoDeadline ? kNoDeadline : monotonic_ns() + timeout;
  transport::Member& self = membership.self;
  self.rank = rank;
  self.ranks = ranks;
  self.communicator = id.communicator();
  self.key = id.key;
  self.process_token = process.token();
  self.host_id = bootstrap::host_id(config);
  Result<std::string> address = listening_address(config);
  if (!address.ok()) return address.status();
  self.bind_address = address.value();
  membership.exchange = [id, ranks, rank,
                         deadline = membership.deadline_ns](std::string_view card) {
    return bootstrap::exchange(id, rank, ranks, card, deadline);
  };
  return options;
}

Status init_rank(tuttiComm_t* comm, int ranks, const tuttiUniqueId& bytes, int rank) {
  if (comm == nullptr) return Status::invalid_argument("tuttiCommInitRank: comm is null");
  *comm = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return Status::invalid_argument("tuttiCommInitRank: rank " + std::to_string(rank) + " of " +
                                    std::to_string(ranks) + " ranks");
  }
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  Result<bootstrap::UniqueId> id = bootstrap::UniqueId::decode(
      {reinterpret_cast<const uint8_t*>(bytes.internal), sizeof bytes.internal});
  if (!id.ok()) return id.status();
  Result<comm::CommunicatorOptions> options =
      options_for(*process.value(), id.value(), ranks, rank);
  if (!options.ok()) return options.status();
  Result<std::unique_ptr<comm::Communicator>> made =
      comm::Communicator::create(std::move(options).value());
  if (!made.ok()) return made.status();
  tuttiComm* handle = process.value()->new_handle();
  handle->communicator = std::move(made).value();
  handle->state.store(tuttiComm::kAlive, std::memory_order_release);
  *comm = handle;
  return {};
}

// Takes the communicator out of its handle; the first caller gets it.
Result<std::unique_ptr<comm::Communicator>> retire(tuttiComm_t comm) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  uint32_t alive = tuttiComm::kAlive;
  if (!comm->state.compare_exchange_strong(alive, 0)) {
    return Status::invalid_usage("the communicator is being destroyed by another thread");
  }
  return std::move(comm->communicator);
}

void drain(comm::Communicator& communicator) {
  exec::Backoff backoff(100);
  while (communicator.pending.load(std::memory_order_acquire) > 0) backoff.pause();
}

Status destroy(tuttiComm_t comm) {
  Result<std::unique_ptr<comm::Communicator>> communicator = retire(comm);
  if (!communicator.ok()) return communicator.status();
  drain(*communicator.value());
  communicator.value()->leave(kLeaveNs);
  return {};
}

Status abort(tuttiComm_t comm) {
  Result<std::unique_ptr<comm::Communicator>> communicator = retire(comm);
  if (!communicator.ok()) return communicator.status();
  communicator.value()->abort(Status::remote_error(
      "rank " + std::to_string(communicator.value()->rank()) + " aborted the communicator"));
  drain(*communicator.value());
  communicator.value()->give_up();
  return {};
}

Status set_options(tuttiComm_t comm, const tuttiOptions_t* options) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  comm::CallOptions wanted;
  if (options != nullptr) {
    if (options->size < sizeof(tuttiOptions_t) || options->reserved != 0) {
      return Status::invalid_argument(
          "tuttiCommSetOptions: begin with TUTTI_OPTIONS_INITIALIZER; reserved is 0");
    }
    if (options->algorithm != nullptr) wanted.algorithm = options->algorithm;
    wanted.deterministic = options->deterministic != 0;
    wanted.timeout_ns = options->timeout_ns;
  }
  if (Status status = comm->communicator->check_algorithm(wanted); !status.ok()) return status;
  drain(*comm->communicator);
  comm->communicator->set_options(wanted);
  return {};
}

Result<schedule::Collective> collective_named(const char* name) {
  for (int i = 0; name != nullptr && i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    if (std::strcmp(schedule::name_of(collective), name) == 0) return collective;
  }
  return Status::invalid_argument("tuttiExplain: no such collective");
}

Status explain(tuttiComm_t comm, const comm::Request& request, char* text, size_t bytes,
               size_t* needed) {
  const std::string answer = comm->communicator->explain(request);
  if (needed != nullptr) *needed = answer.size() + 1;
  if (text == nullptr || bytes < answer.size() + 1) {
    return Status::invalid_argument("tuttiExplain: the text needs " +
                                    std::to_string(answer.size() + 1) + " bytes");
  }
  std::memcpy(text, answer.c_str(), answer.size() + 1);
  return {};
}

}  // namespace
}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiGetVersion(int* version) {
  if (version == nullptr) {
    return report(nullptr, tutti::Status::invalid_argument("tuttiGetVersion: version is null"));
  }
  *version = TUTTI_VERSION;
  return tuttiSuccess;
}

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return report(nullptr, tutti::api::get_unique_id(id));
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank) {
  return report(nullptr, tutti::api::init_rank(comm, ranks, id, rank));
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) { return report(comm, tutti::api::destroy(comm)); }

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) { return report(comm, tutti::api::abort(comm)); }

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks) {
  tutti::Status status = tutti::api::check_handle(comm);
  if (status.ok() && ranks == nullptr) {
    status = tutti::Status::invalid_argument("tuttiCommCount: ranks is null");
  }
  if (status.ok()) *ranks = comm->communicator->ranks();
  return report(comm, status);
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  tutti::Status status = tutti::api::check_handle(comm);
  if (status.ok() && rank == nullptr) {
    status = tutti::Status::invalid_argument("tuttiCommUserRank: rank is null");
  }
  if (status.ok()) *rank = comm->communicator->rank();
  return report(comm, status);
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error) {
  tutti::Status status = tutti::api::check_handle(comm);
  if (status.ok() && error == nullptr) {
    status = tutti::Status::invalid_argument("tuttiCommGetAsyncError: error is null");
  }
  if (status.ok()) *error = tutti::api::result_of(comm->communicator->failure().code());
  return report(comm, status);
}

const char* tuttiGetErrorString(tuttiResult_t result) {
  switch (result) {
    case tuttiSuccess:
      return "no error";
    case tuttiUnhandledCudaError:
      return "a CUDA call failed";
    case tuttiSystemError:
      return "the operating system refused something";
    case tuttiInternalError:
      return "a defect in Tutti";
    case tuttiInvalidArgument:
      return "an argument is invalid";
    case tuttiInvalidUsage:
      return "the call is not allowed here and now";
    case tuttiRemoteError:
      return "another rank failed or is gone";
    case tuttiInProgress:
      return "not finished yet";
    case tuttiTimeout:
      return "a deadline passed";
    case tuttiUnsupported:
      return "not supported by this build or machine";
  }
  return "unknown result";
}

const char* tuttiGetLastError(tuttiComm_t comm) { return tutti::api::last_error(comm); }

tuttiResult_t tuttiCommSetOptions(tuttiComm_t comm, const tuttiOptions_t* options) {
  return report(comm, tutti::api::set_options(comm, options));
}

tuttiResult_t tuttiExplain(tuttiComm_t comm, const char* collective, size_t count,
                           tuttiDataType_t type, char* text, size_t bytes, size_t* needed) {
  if (tutti::Status status = tutti::api::check_handle(comm); !status.ok()) {
    return report(comm, status);
  }
  const auto named = tutti::api::collective_named(collective);
  if (!named.ok()) return report(comm, named.status());
  const int number = tutti::api::number_of(type);
  if (number < 0 || number >= tutti::types::kDataTypes) {
    return report(comm, tutti::Status::invalid_argument("tuttiExplain: unknown data type"));
  }
  tutti::comm::Request request;
  request.collective = named.value();
  request.type = static_cast<tutti::types::DataType>(number);
  request.count = count;
  // Addresses nobody follows: neither in place nor registered.
  static constexpr char kSend = 0, kRecv = 0;
  request.send = &kSend;
  request.recv = const_cast<char*>(&kRecv);
  return report(comm, tutti::api::explain(comm, request, text, bytes, needed));
}

}  // extern "C"
