#include "src/operation/collective_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/operation/question.h"
#include "src/schedule/layout.h"

namespace tutti::operation {
namespace {

std::vector<Share> shares_of(const comm::CountView& view, const uint64_t* counts,
                             const uint64_t* offsets, uint64_t element) {
  std::vector<Share> shares;
  for (uint32_t i = 0; i < view.ranks; ++i) {
    shares.push_back({comm::offset_of(view, counts, offsets, i) * element, counts[i] * element});
  }
  return shares;
}

std::vector<Share> input_of(const comm::Request& request, const schedule::Shape& shape, int rank) {
  const uint64_t element = types::size_of(request.type);
  if (request.counts == nullptr) {
    return {{0, schedule::input_elements(shape, rank, request.count) * element}};
  }
  const comm::CountView& view = *request.counts;
  if (view.send_counts == nullptr) return {{0, comm::input_elements_of(view, rank) * element}};
  return shares_of(view, view.send_counts, view.send_offsets, element);
}

std::vector<Share> output_of(const comm::Request& request, const schedule::Shape& shape, int rank) {
  const uint64_t element = types::size_of(request.type);
  if (request.counts == nullptr) {
    return {{0, schedule::output_elements(shape, rank, request.count) * element}};
  }
  const comm::CountView& view = *request.counts;
  if (view.recv_counts == nullptr) return {{0, view.send_counts[rank] * element}};
  return shares_of(view, view.recv_counts, view.recv_offsets, element);
}

}  // namespace

CollectiveOperation::CollectiveOperation(comm::Communicator& communicator,
                                         const comm::Request& request)
    : OperationOf(communicator, request.extras), request_(request) {
  if (request.counts != nullptr) counts_ = comm::KeptCounts(*request.counts);
}

comm::Request CollectiveOperation::request() const {
  comm::Request request = request_;
  request.extras = &extras_;
  if (request.counts != nullptr) request.counts = &counts_.view();
  return request;
}

std::vector<CallBuffer> CollectiveOperation::buffers() const {
  const comm::Request request = this->request();
  schedule::Shape shape;
  shape.collective = request.collective;
  shape.ranks = communicator().ranks();
  shape.root = request.root;
  const int rank = communicator().rank();
  std::vector<CallBuffer> all;
  all.push_back({name(), "send", request.send, input_of(request, shape, rank), BufferUse::kInput});
  all.push_back(
      {name(), "recv", request.recv, output_of(request, shape, rank), BufferUse::kOutput});
  const void* const scalar = extras_.scalar.memory;
  if (scalar != nullptr) {
    const Share one{0, types::size_of(request.type)};
    all.push_back({name(), "the scalar", scalar, {one}, BufferUse::kScalar});
  }
  return all;
}

void CollectiveOperation::move_buffer(size_t number, std::byte* memory) {
  if (number == 0) request_.send = memory;
  if (number == 1) request_.recv = memory;
  if (number == 2) extras_.scalar.memory = memory;
}

Result<double> CollectiveOperation::predict_ns() {
  return communicator().collectives().predict_ns(request());
}

std::string CollectiveOperation::explain() {
  const comm::Request request = this->request();
  comm::Collectives& collectives = communicator().collectives();
  const std::string& origin = communicator().made_with().origin;
  return (origin.empty() ? "" : origin + "\n") + collectives.explain(request) +
         communicator().streams().explain(request, collectives.is_in_place(request),
                                          options().engine);
}

Status CollectiveOperation::run() { return communicator().collectives().run(request()); }

uint64_t CollectiveOperation::queue() {
  comm::CallRecorder& labels = communicator().frame().labels();
  return labels.recorder().queue(labels.label(request()));
}

Status CollectiveOperation::begin(uint64_t ticket) {
  comm::Collectives& collectives = communicator().collectives();
  if (shares_ != nullptr) {
    const trace::Label label = communicator().frame().labels().label(request());
    return communicator().transfers().begin(*shares_, label, options().timeout_ns, ticket);
  }
  return part_ == nullptr ? collectives.begin(request(), ticket)
                          : collectives.begin(request(), *part_, ticket);
}

plan::Progress CollectiveOperation::advance() {
  return shares_ != nullptr ? communicator().transfers().advance()
                            : communicator().collectives().advance();
}

Status CollectiveOperation::outcome() const {
  return shares_ != nullptr ? communicator().transfers().outcome()
                            : communicator().collectives().outcome();
}

Status CollectiveOperation::unsupported_by_streams() const {
  return communicator().streams().unsupported_reason(request(), options().engine);
}

Status CollectiveOperation::check_host_way() {
  if (crosses()) return {};
  const bool may = comm::DeviceCalls::may_take(request_);
  return communicator().streams().check_host_way({.operation = name(),
                                                  .why = unsupported_by_streams(),
                                                  .asked = options().engine,
                                                  .may = may});
}

Status CollectiveOperation::announce_host_way() {
  return communicator().streams().announce_host_way(request(), options().engine);
}

// A scalar in ordinary host memory is read now, since no stream can.
Status CollectiveOperation::take_scalar() {
  types::Scalar& scalar = extras_.scalar;
  if (scalar.memory == nullptr) return {};
  const Result<exec::MemoryPlace> place = communicator().streams().device().place_of(scalar.memory);
  if (!place.ok()) return place.status();
  if (place.value() != exec::MemoryPlace::kHost) return {};
  std::memcpy(scalar.value.data(), scalar.memory, types::size_of(request_.type));
  scalar.memory = nullptr;
  return {};
}

Status CollectiveOperation::check_stream(const exec::StreamPlace& where) {
  comm::DeviceStreams& streams = communicator().streams();
  if (Status status = streams.check_place(where); !status.ok()) return status;
  if (Status status = check_streams_memory(streams.device(), buffers()); !status.ok())
    return status;
  return take_scalar();
}

bool CollectiveOperation::crosses() const {
  return communicator().streams().objection_to_network(request(), options().engine).ok();
}

Result<std::shared_ptr<exec::HostStaging>> CollectiveOperation::cross_shares(
    const exec::StreamPlace& where, std::function<void()> arrived) {
  comm::DeviceStreams& streams = communicator().streams();
  comm::DeviceCalls& calls = streams.calls();
  comm::NetworkedTransfers call = calls.networked(
      calls.shares_of(request(), where), communicator().collectives().deadline_from_now(&extras_));
  const auto& pairs = call.part.bounced.pairs;
  auto staging = streams.cross(std::move(call.streamed), pairs, std::move(arrived));
  if (!staging.ok()) return staging.status();
  call.part.bounced.crossing = staging.value();
  call.part.bounced.find_late = [&calls] { return calls.find_late(); };
  shares_ = std::make_shared<const comm::TransferPart>(std::move(call.part));
  return std::shared_ptr<exec::HostStaging>(std::move(staging).value());
}

// The host's part begins when the stream has come to the call, and has the deadline; what streams
// do behind it, as a last call within the host, must end, too, but never before that one has had
// its say: ranks of other hosts ask each other first who is at fault.
uint64_t CollectiveOperation::longest_in_streams() {
  constexpr uint64_t kToAskNs = 5 * kNanosecondsPerSecond;
  const uint64_t now_ns = monotonic_ns();
  const uint64_t deadline_ns = communicator().collectives().deadline_from_now(&extras_);
  const uint64_t left_ns = deadline_ns - std::min(deadline_ns, now_ns) + kToAskNs;
  return deadline_ns > kNoDeadline - left_ns ? kNoDeadline : deadline_ns + left_ns;
}

Result<std::shared_ptr<exec::HostStaging>> CollectiveOperation::cross(
    std::span<const exec::StreamPlace> all, std::function<void()> arrived) {
  const exec::StreamPlace& where = all.front();
  comm::DeviceStreams& streams = communicator().streams();
  if (Status status = check_stream(where); !status.ok()) return status;
  const comm::Request request = this->request();
  if (comm::has_private_counts(request)) return cross_shares(where, std::move(arrived));
  const bool in_place = communicator().collectives().is_in_place(request);
  Result<comm::NetworkedCall> call = streams.calls().networked_call_of(request, in_place, where);
  if (!call.ok()) return call.status();
  call.value().streamed.call.deadline_ns = longest_in_streams();
  auto staging =
      streams.cross(std::move(call.value().streamed), call.value().plan, std::move(arrived));
  if (!staging.ok()) return staging.status();
  comm::NetworkPart part;
  part.network = {call.value().plan, staging.value(),
                  [calls = &streams.calls()] { return calls->find_late(); }};
  part.call = call.value().host;
  part.described = call.value().described;
  part.algorithm = std::move(call.value().algorithm);
  part_ = std::make_shared<const comm::NetworkPart>(std::move(part));
  return std::shared_ptr<exec::HostStaging>(std::move(staging).value());
}

Result<StreamWork> CollectiveOperation::stream_work(std::span<const exec::StreamPlace> where) {
  if (Status status = check_stream(where.front()); !status.ok()) return status;
  comm::DeviceStreams& streams = communicator().streams();
  const comm::Request request = this->request();
  comm::Collectives& collectives = communicator().collectives();
  const uint64_t deadline_ns = collectives.deadline_from_now(&extras_);
  if (streams.calls().goes_by_transfers(request)) {
    exec::StreamedTransfers shares = streams.calls().shares_of(request, where.front());
    shares.call.deadline_ns = deadline_ns;
    return StreamWork(std::move(shares));
  }
  Result<exec::StreamedCall> call =
      streams.calls().call_of(request, collectives.is_in_place(request), where.front());
  if (!call.ok()) return call.status();
  call.value().call.deadline_ns = deadline_ns;
  return StreamWork(std::move(call).value());
}

namespace calls::collective {

// Plain ones, then those with count vectors.
std::vector<std::string> names() {
  std::vector<std::string> all, with_counts;
  for (int i = 0; i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    all.emplace_back(schedule::name_of(collective));
    const std::string_view name = comm::vector_name_of(collective);
    if (!name.empty()) with_counts.emplace_back(name);
  }
  all.insert(all.end(), with_counts.begin(), with_counts.end());
  return all;
}

std::string answer(const Question& question) {
  comm::Communicator& communicator = *question.communicator;
  comm::Request request;
  request.type = question.type;
  request.count = question.count;
  // Addresses nobody follows: neither in place nor registered.
  static constexpr char kSend = 0, kRecv = 0;
  request.send = &kSend;
  request.recv = const_cast<char*>(&kRecv);
  // A v-collective's choice depends on the longest share only, so that all are equal is no matter.
  const std::vector<uint64_t> shares(static_cast<size_t>(communicator.ranks()), question.count);
  comm::CountView view{.ranks = static_cast<uint32_t>(shares.size())};
  for (int i = 0; i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    const bool has_counts = question.call == comm::vector_name_of(collective);
    if (!has_counts && question.call != schedule::name_of(collective)) continue;
    request.collective = collective;
    if (!has_counts) continue;
    const schedule::Traits& traits = schedule::traits_of(collective);
    if (traits.input.parts) view.send_counts = shares.data();
    if (traits.output.parts) view.recv_counts = shares.data();
    request.counts = &view;
  }
  return CollectiveOperation(communicator, request).explain();
}

}  // namespace calls::collective
}  // namespace tutti::operation
