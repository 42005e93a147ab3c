#include "perf/collectives/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "perf/collectives/datatypes.h"
#include "perf/collectives/error.h"
#include "perf/collectives/pairs.h"

namespace tutti::perf {
namespace {

/// Of the ranks of this one's host, in their order. Collective.
int number_on_host(const RankContext& context) {
  char own[256] = {};
  gethostname(own, sizeof own - 1);
  const std::vector<std::string> all = context.board.exchange_texts(context.rank, own);
  return static_cast<int>(std::count(all.begin(), all.begin() + context.rank, own));
}

/// The text between a mark and the next comma.
std::string after(std::string_view line, std::string_view mark) {
  const size_t found = line.find(mark);
  if (found == std::string_view::npos) return "?";
  const std::string_view rest = line.substr(found + mark.size());
  return std::string(rest.substr(0, rest.find(',')));
}

}  // namespace

Communicator::Communicator(const RankContext& context, const Subgroup& group,
                           const CommunicatorOptions& options)
    : exceptions_(std::uncaught_exceptions()) {
  if (options.open_device) {
    device_ = options.open_device(number_on_host(context));
    stream_ = device_->stream();
  }
  tuttiUniqueId id{};
  if (context.rank == group.leader) check(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
  id = context.board.exchange(context.rank, id)[static_cast<size_t>(group.leader)];
  check(tuttiCommInitRank(&comm_, group.ranks, id, group.rank), "tuttiCommInitRank");

  tuttiOptions_t chosen = TUTTI_OPTIONS_INITIALIZER;
  chosen.algorithm = options.algorithm.empty() ? nullptr : options.algorithm.c_str();
  chosen.deterministic = options.deterministic;
  chosen.timeout_ns = options.timeout_ns;
  chosen.engine = options.engine;
  check(tuttiCommSetOptions(comm_, &chosen), "tuttiCommSetOptions");
  if (options.host_stream) check(tuttiStreamCreate(&stream_), "tuttiStreamCreate");
}

Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    tuttiCommAbort(comm_);
    return;
  }
  if (stream_.kind == tuttiStreamHost) tuttiStreamDestroy(stream_);
  tuttiCommDestroy(comm_);
}

void Communicator::synchronize() const {
  if (stream_.kind == tuttiStreamHost) {
    check(tuttiStreamSynchronize(stream_), "tuttiStreamSynchronize");
  }
  if (device_ == nullptr) return;
  device_->synchronize();
  tuttiResult_t failure = tuttiSuccess;  // of a call that has failed on its way
  check(tuttiCommGetAsyncError(comm_, &failure), "tuttiCommGetAsyncError");
  check(failure, "a call on device memory");
}

void Communicator::raise(tuttiResult_t result, const char* call) const {
  const char* sentence = tuttiGetLastError(comm_);
  std::string message = std::string(call) + ": " + tuttiGetErrorString(result);
  if (sentence != nullptr && *sentence != '\0') message += std::string(": ") + sentence;
  throw PerfError(message, result == tuttiTimeout ? kExitTimeout : kExitLibrary);
}

ReadyOperation::ReadyOperation(const Communicator& communicator, const Operation& operation)
    : communicator_(communicator), made_(operation.op == kMulSum), operation_(operation) {
  if (!made_) return;
  std::byte scalar[8] = {};
  encode(data_type(operation.type), mulsum_scalar(operation.rank), scalar);
  communicator.check(tuttiRedOpCreatePreMulSum(&operation_.op, scalar, operation.type,
                                               tuttiScalarHostImmediate, communicator.comm()),
                     "tuttiRedOpCreatePreMulSum");
}

ReadyOperation::~ReadyOperation() {
  if (made_) tuttiRedOpDestroy(operation_.op, communicator_.comm());
}

tuttiResult_t enqueue(const Operation& o, const void* send, void* recv,
                      const Communicator& communicator) {
  const tuttiComm_t comm = communicator.comm();
  const tuttiStream_t stream = communicator.stream();
  switch (o.collective) {
    case Collective::kAllReduce:
      return tuttiAllReduce(send, recv, o.count, o.type, o.op, comm, stream);
    case Collective::kAllGather:
      return tuttiAllGather(send, recv, o.count, o.type, comm, stream);
    case Collective::kReduceScatter:
      return tuttiReduceScatter(send, recv, o.count, o.type, o.op, comm, stream);
    case Collective::kBroadcast:
      return tuttiBroadcast(send, recv, o.count, o.type, o.root, comm, stream);
    case Collective::kReduce:
      return tuttiReduce(send, recv, o.count, o.type, o.op, o.root, comm, stream);
    case Collective::kGather:
      return tuttiGather(send, recv, o.count, o.type, o.root, comm, stream);
    case Collective::kScatter:
      return tuttiScatter(send, recv, o.count, o.type, o.root, comm, stream);
    case Collective::kAllToAll:
      return tuttiAllToAll(send, recv, o.count, o.type, comm, stream);
    case Collective::kAllGatherV:
      return tuttiAllGatherV(send, o.recv_counts[o.rank], recv, o.recv_counts, nullptr, o.type,
                             comm, stream);
    case Collective::kReduceScatterV:
      return tuttiReduceScatterV(send, recv, o.send_counts, o.type, o.op, comm, stream);
    case Collective::kAllToAllV:
      return tuttiAllToAllV(send, o.send_counts, nullptr, recv, o.recv_counts, nullptr, o.type,
                            comm, stream);
    case Collective::kBarrier:
      return tuttiBarrier(comm, stream);
    case Collective::kSendRecv:
      return enqueue_sendrecv(o, send, recv, communicator);
    case Collective::kHypercube:
      return enqueue_hypercube(o, send, recv, communicator);
  }
  return tuttiInvalidArgument;
}

std::string explanation(const Communicator& communicator, const Operation& operation) {
  const CollectiveTraits& traits = traits_of(operation.collective);
  const int ranks = operation.ranks;
  const size_t longest =
      uneven_block(operation.count * static_cast<size_t>(ranks), ranks - 1, ranks);
  const size_t count = traits.has(Trait::kUneven) ? longest : operation.count;
  return explanation(communicator, traits.name, count, operation.type);
}

std::string explanation(const Communicator& communicator, const char* call, size_t count,
                        tuttiDataType_t type) {
  std::string text(4096, '\0');
  size_t needed = 0;
  const auto ask = [&] {
    return tuttiExplain(communicator.comm(), call, count, type, text.data(), text.size(), &needed);
  };
  tuttiResult_t result = ask();
  if (result == tuttiInvalidArgument && needed > text.size()) {
    text.resize(needed);
    result = ask();
  }
  communicator.check(result, "tuttiExplain");
  text.resize(text.find('\0'));
  return text;
}

Choice parse_choice(std::string_view explanation) {
  constexpr std::string_view kChosen = " ranks: ";
  std::string_view line;
  while (!explanation.empty() && line.find(kChosen) == std::string_view::npos) {
    line = explanation.substr(0, explanation.find('\n'));
    explanation.remove_prefix(std::min(line.size() + 1, explanation.size()));
  }
  return {after(line, kChosen), after(line, ", over ")};
}

Choice choice_of(const Communicator& communicator, const Operation& operation) {
  const CollectiveTraits& traits = traits_of(operation.collective);
  if (!traits.has(Trait::kOfPairs)) return parse_choice(explanation(communicator, operation));
  Operation barrier = operation;
  barrier.collective = Collective::kBarrier;
  barrier.count = 0;
  return {"pairs", parse_choice(explanation(communicator, barrier)).transports};
}

}  // namespace tutti::perf
