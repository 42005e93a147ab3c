#include "perf/collectives/nccl_baseline.h"

#include <ctime>
#include <vector>

#include "perf/collectives/datatypes.h"
#include "perf/collectives/error.h"
#include "perf/collectives/timed_loop.h"
#include "src/base/config.h"

namespace tutti::perf {

namespace nccl = drivers::nccl;

namespace {

constexpr double kMostMakingUs = 120e6;
constexpr long kNapNs = 1'000'000;

void nap() {
  const timespec time{0, kNapNs};
  nanosleep(&time, nullptr);
}

nccl::NcclId take_id(const RankContext& context, const Subgroup& group,
                     const Result<nccl::Nccl>& library) {
  nccl::NcclId id{};
  if (library.ok() && context.rank == group.leader) (void)library.value().call.ncclGetUniqueId(&id);
  return context.board.exchange(context.rank, id)[static_cast<size_t>(group.leader)];
}

}  // namespace

NcclBaseline::NcclBaseline(const RankContext& context, const Subgroup& group,
                           const Communicator& communicator, const std::string& library)
    : board_(context.board), communicator_(communicator), nccl_(nccl::find(library)) {
  const std::string own(nccl_.ok() ? "" : nccl_.status().message());
  const nccl::NcclId id = take_id(context, group, nccl_);
  // Every rank learns how the others' parts went.
  const std::vector<std::string> all = context.board.exchange_texts(context.rank, own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw PerfError("--vs nccl: rank " + std::to_string(rank) + ": " + all[rank]);
  }
  const std::string why = make(group, id);
  if (why.empty()) return;
  abort();  // nobody destroys what was not constructed
  throw PerfError("--vs nccl: rank " + std::to_string(context.rank) + ": " + why);
}

NcclBaseline::~NcclBaseline() { abort(); }

void NcclBaseline::abort() {
  if (comm_ != nullptr) (void)nccl_.value().call.ncclCommAbort(comm_);
}

/// Why there is none; "": there is one.
std::string NcclBaseline::make(const Subgroup& group, const nccl::NcclId& id) {
  const nccl::Nccl& library = nccl_.value();
  nccl::NcclConfig config = library.config();
  nccl::NcclResult state =
      library.call.ncclCommInitRankConfig(&comm_, group.ranks, id, group.rank, &config);
  if (state == nccl::kSuccess || state == nccl::kInProgress) state = settle();
  if (state == nccl::kInProgress) {
    return board_.failed() ? "a peer has none" : "NCCL's communicator is not made after 120 s";
  }
  const Status made = library.check(state, "ncclCommInitRankConfig", comm_);
  return made.ok() ? "" : std::string(made.message());
}

/// Until it is not in progress, or for too long, or a peer has failed, which nothing waits for.
nccl::NcclResult NcclBaseline::settle() {
  const double until_us = now_us() + kMostMakingUs;
  nccl::NcclResult state = nccl::kInProgress;
  while (true) {
    const nccl::NcclResult asked = nccl_.value().call.ncclCommGetAsyncError(comm_, &state);
    if (asked != nccl::kSuccess) return asked;
    if (state != nccl::kInProgress || now_us() > until_us || board_.failed()) return state;
    nap();
  }
}

void NcclBaseline::check(nccl::NcclResult result, const char* function) {
  if (__builtin_expect(result == nccl::kSuccess, 1)) return;
  if (result == nccl::kInProgress) result = settle();
  if (result == nccl::kInProgress) throw PerfError("NCCL is still busy after 120 s", kExitTimeout);
  const Status status = nccl_.value().check(result, function, comm_);
  if (!status.ok()) throw PerfError("--vs nccl: " + std::string(status.message()), kExitLibrary);
}

bool NcclBaseline::has(const Operation& operation, bool in_place) const {
  if (static_cast<int>(operation.type) >= nccl_.value().types()) return false;
  switch (operation.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return static_cast<int>(operation.op) < nccl::kNamedOps;
    case Collective::kBroadcast:
    case Collective::kAllGather:
      return true;
    case Collective::kAllToAll:
      return !in_place;
    default:
      return false;
  }
}

// By sends and receives, which every version has.
void NcclBaseline::exchange(const Operation& o, const std::byte* send, std::byte* recv) {
  const nccl::NcclFunctions& call = nccl_.value().call;
  void* const stream = communicator_.stream().handle;
  const size_t block = o.count * data_type(o.type).bytes;
  check(call.ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < o.ranks; ++peer) {
    const size_t at = static_cast<size_t>(peer) * block;
    check(call.ncclSend(send + at, o.count, o.type, peer, comm_, stream), "ncclSend");
    check(call.ncclRecv(recv + at, o.count, o.type, peer, comm_, stream), "ncclRecv");
  }
  check(call.ncclGroupEnd(), "ncclGroupEnd");
}

void NcclBaseline::enqueue(const Operation& o, const void* send, void* recv) {
  const nccl::NcclFunctions& call = nccl_.value().call;
  void* const stream = communicator_.stream().handle;
  switch (o.collective) {
    case Collective::kAllReduce:
      return check(call.ncclAllReduce(send, recv, o.count, o.type, o.op, comm_, stream),
                   "ncclAllReduce");
    case Collective::kReduce:
      return check(call.ncclReduce(send, recv, o.count, o.type, o.op, o.root, comm_, stream),
                   "ncclReduce");
    case Collective::kReduceScatter:
      return check(call.ncclReduceScatter(send, recv, o.count, o.type, o.op, comm_, stream),
                   "ncclReduceScatter");
    case Collective::kBroadcast:
      return check(call.ncclBroadcast(send, recv, o.count, o.type, o.root, comm_, stream),
                   "ncclBroadcast");
    case Collective::kAllGather:
      return check(call.ncclAllGather(send, recv, o.count, o.type, comm_, stream), "ncclAllGather");
    default:
      return exchange(o, static_cast<const std::byte*>(send), static_cast<std::byte*>(recv));
  }
}

void NcclBaseline::synchronize() {
  communicator_.device()->synchronize();
  nccl::NcclResult state = nccl::kSuccess;
  check(nccl_.value().call.ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  check(state, "a call");
}

std::unique_ptr<Baseline> open_nccl_baseline(const RankContext& context, const Subgroup& group,
                                             const Communicator& communicator) {
  const Result<Config> config = Config::from_environment(process_environment());
  return std::make_unique<NcclBaseline>(context, group, communicator,
                                        config.ok() ? config.value().nccl_library : "");
}

}  // namespace tutti::perf
