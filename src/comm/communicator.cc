#include "src/comm/communicator.h"

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/exec/stall.h"
#include "src/exec/wait.h"
#include "src/types/kernels.h"

namespace tutti::comm {

using schedule::Collective;

namespace {

uint32_t spins_of(const Config& config, const Membership& members) {
  if (config.spin_polls > 0) return config.spin_polls;
  return exec::spins_for({.sharing = members.domain_size(),
                          .cores = members.cores(),
                          .has_streams = members.domain_size() < members.ranks()});
}

/// A connection that could not be made or broke says more than that a rank is gone, which is all
/// that others tell.
std::string describe(const exec::Loss& loss, const Membership& membership,
                     const exec::Health& health) {
  const transport::Link* link =
      loss.rank == membership.rank() ? nullptr : membership.link(loss.rank);
  const Status own = link != nullptr ? link->status() : Status();
  std::string why = " is gone";
  if (!loss.is_gone()) {
    why = " gave up " + health.because_of(loss.cause);
  } else if (loss.rank == membership.rank()) {
    why = " is taken for gone by another rank";
  } else if (!own.ok()) {
    why = ": " + std::string(own.message());
  }
  return membership.name_of(loss.rank) + why + "; rank " + std::to_string(membership.rank()) +
         " cannot go on with this communicator";
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(options)));
  const CommunicatorOptions& given = made->options_;
  const Config& config = *given.membership.env->config;
  MembershipOptions joining = given.membership;
  joining.watch = given.watch;
  joining.processors = own_processors();
  if (given.device != nullptr) joining.device = given.device->identity_of(given.device_place);
  Result<std::unique_ptr<Membership>> membership = Membership::create(std::move(joining));
  if (!membership.ok()) return membership.status();
  made->membership_ = std::move(membership).value();
  // Both were for joining, and hold descriptors and the communicator it came from.
  made->options_.membership.exchange = nullptr;
  made->options_.membership.make_room = nullptr;
  made->options_.membership.patience = kNoDeadline;
  const Membership& members = *made->membership_;

  exec::ExecutorOptions execution;
  execution.rank = members.rank();
  execution.ranks = members.ranks();
  execution.communicator = given.membership.self.communicator;
  execution.epoch = given.membership.self.epoch;
  execution.spins = spins_of(config, members);
  execution.layout = given.membership.layout;
  execution.staging_stores = config.staging_stores;
  execution.slow_ns = config.slow_ns;
  execution.calls_before = config.calls_before;
  execution.first_progress = uint64_t{config.calls_before} + 1;
  if (Status status = made->open_recorder(); !status.ok()) return status;
  execution.recorder = made->recorder_;
  made->executor_ = std::make_unique<exec::HostExecutor>(execution, members.peers(), *made);
  made->pairs_ = std::make_unique<exec::PairExecutor>(*made->executor_);
  made->transfer_calls_ = made->access_calls_ = made->regions_ = config.calls_before;

  made->planner_ = std::make_unique<Planner>(made->planner_options());
  made->vectors_ = std::make_unique<VectorCall>(*made->planner_, *made->executor_);
  made->set_options({.algorithm = {}, .deterministic = config.deterministic});
  made->direct_ = members.all_memory() && members.domain_size() > 1;
  made->reads_peers_ = members.single_copy() && config.single_copy_bytes > 0;
  if (given.watch != nullptr) {
    Result<std::unique_ptr<PeerWatch>> peers =
        PeerWatch::create(*given.watch, members, *made->executor_, *made);
    if (!peers.ok()) return peers.status();
    made->peer_watch_ = std::move(peers).value();
  }
  if (Status status = made->open_device(); !status.ok()) return status;
  made->complete_ = true;
  return made;
}

trace::RecorderOptions Communicator::recorder_options() const {
  trace::RecorderOptions options;
  options.communicator = options_.membership.self.communicator;
  options.epoch = options_.membership.self.epoch;
  options.rank = rank();
  options.ranks = ranks();
  options.host = membership_->profiles()[static_cast<size_t>(rank())].host;
  return options;
}

Status Communicator::open_recorder() {
  Result<std::unique_ptr<CallRecorder>> calls =
      CallRecorder::create(*options_.membership.env, recorder_options());
  if (!calls.ok()) return calls.status();
  calls_ = std::move(calls).value();
  recorder_ = &calls_->recorder();
  return {};
}

Communicator::~Communicator() {
  device_calls_.reset();
  if (membership_ != nullptr && !complete_) membership_->give_up();
  if (peer_watch_ != nullptr) peer_watch_->finish_meeting();
  if (membership_ != nullptr) membership_->stop_serving();
  leave_attendant();
  peer_watch_.reset();
}

std::string Communicator::name_of(int rank) const { return membership_->name_of(rank); }

void Communicator::report(const std::string& text) {
  options_.membership.env->log->warning("{}", text);
}

void Communicator::fail(Status reason, const exec::Cause& cause) {
  const std::lock_guard lock(failure_mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  failure_ = std::move(reason);
  cause_ = cause;
  failed_.store(true, std::memory_order_release);
  if (peer_watch_ != nullptr) peer_watch_->end();
}

exec::Cause Communicator::cause() const {
  const std::lock_guard lock(failure_mutex_);
  return cause_;
}

void Communicator::abort(Status reason) { fail(std::move(reason), {}); }

void Communicator::abort() {
  abort(caught_status([&] {
    return Status::remote_error("rank " + std::to_string(rank()) + " aborted the communicator");
  }));
}

void Communicator::begin_failed() {
  if (!status().ok()) return;
  executor_->state().fail(check(), cause_or_self());
  publish_failure();
}

void Communicator::give_up() {
  Status reason = check();
  executor_->state().fail(std::move(reason), cause_or_self());
  leave_windows();
}

Status Communicator::fail_after(const std::exception& error) {
  const Status reason = status_of(error);
  abort(reason);
  // Before what may not come to its end for want of memory.
  executor_->state().fail(reason, cause_or_self());
  attempt([this] { leave_windows(); });
  return reason;
}

Status Communicator::end_after(const std::exception& error) {
  Status reason = fail_after(error);
  attempt([&] { conclude(reason); });
  return reason;
}

exec::Cause Communicator::cause_or_self() const {
  const exec::Cause known = cause();
  return known.known() ? known : exec::Cause{rank(), -1};
}

Status Communicator::check() {
  if (is_abort_ordered()) abort();
  if (!failed_.load(std::memory_order_acquire)) {
    const auto loss = peer_watch_ != nullptr ? peer_watch_->judge() : std::nullopt;
    if (!loss) return check_leaving();
    fail(Status::remote_error(describe(*loss, *membership_, *this)),
         loss->is_gone() ? exec::Cause{loss->rank, -1} : loss->cause);
  }
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

// The ranks of two communicators may end them in different orders, and would wait in a circle.
Status Communicator::check_leaving() const {
  if (!began_leaving_ || !wanted_elsewhere_()) return {};
  return Status::timeout("a rank waits for this one in another communicator");
}

Status Communicator::failure_of_any() {
  const std::vector<exec::Peer>& peers = executor_->state().peers();
  for (const exec::Peer& peer : peers) {
    if (!peer.arena.valid()) continue;
    const uint64_t failed = peer.arena.counter(0).failed.load(std::memory_order_acquire);
    const auto loss = exec::Loss::read(failed, peers.size());
    if (loss && loss->rank != membership_->rank()) {
      return Status::remote_error(describe(*loss, *membership_, *this));
    }
  }
  return check();
}

inline Result<const Prepared*> Communicator::prepare(const Request& request) {
  if (repeat_.is(request)) return planner_->prepare(request, repeat_.placement.holds(request), {});
  const Placement placement = placement_of(request);
  if (is_always_staged(output_bytes(request))) repeat_ = {request, placement};
  return planner_->prepare(request, placement.holds(request), reach_of(request));
}

uint64_t Communicator::deadline_from_now(const Extras* extras) const {
  return deadline_of_call(planner_->options_of(extras).timeout_ns);
}

uint64_t Communicator::timeout_of(uint64_t own) const {
  if (own > 0) return own;
  return options_.timeout_ns > 0 ? options_.timeout_ns
                                 : options_.membership.env->config->timeout_ns;
}

uint64_t Communicator::deadline_of_call(uint64_t own) const {
  return deadline_after(timeout_of(own));
}

inline exec::Call Communicator::call_of(const Request& request, const Prepared& prepared) const {
  return {request.send,
          request.recv,
          prepared.signature,
          deadline_from_now(request.extras),
          schedule::name_of(request.collective),
          prepared.registered,
          prepared.far_signature};
}

// A scaled sum is the sum of what every rank has multiplied beforehand: one rounding more, the same
// for every algorithm, and no rank needs to know another's scalar. The input of an all_reduce is
// scaled into its output and reduced in place there; others need memory for it.
Result<Request> Communicator::contribute(const Request& request) {
  Request scaled = request;
  const uint64_t elements = send_elements(request);
  const uint64_t bytes = elements * types::size_of(request.type);
  if (request.collective == Collective::kAllReduce) {
    scaled.send = request.recv;
  } else {
    if (bytes > contribution_capacity_) {
      contribution_capacity_ = 0;
      contribution_.reset(new (std::nothrow) std::byte[bytes]);
      if (contribution_ == nullptr) {
        return Status::system_error(std::string(comm::name_of(request)) + " on " + name_of(rank()) +
                                    ": no memory for a scaled copy of " + std::to_string(bytes) +
                                    " bytes of input");
      }
      contribution_capacity_ = bytes;
    }
    scaled.send = contribution_.get();
  }
  // Before anything of the user's is written: this call may be refused.
  if (scaled.counts == nullptr) {
    if (const auto prepared = prepare(scaled); !prepared.ok()) return prepared.status();
  }
  const types::Scalar& scalar = request.extras->scalar;
  const auto* factor =
      scalar.memory == nullptr ? scalar.value.data() : static_cast<const std::byte*>(scalar.memory);
  types::scale(request.type, factor, static_cast<const std::byte*>(request.send),
               static_cast<std::byte*>(const_cast<void*>(scaled.send)), elements);
  return scaled;
}

Result<Request> Communicator::contribution_of(const Request& request) {
  if (request.op == types::ReduceOp::kScaledSum) return contribute(request);
  return request;
}

// Flattened: the way of every small call, where each step that is not inlined shows.
[[gnu::flatten]] Status Communicator::run(const Request& request) {
  executor_->claim_cells();
  heed_failure();
  const bool plain = request.counts == nullptr && request.op != types::ReduceOp::kScaledSum;
  if (plain && repeat_.is(request)) [[likely]] {
    const Prepared* ready = planner_->repeat(request, repeat_.placement.holds(request), {});
    if (ready != nullptr && ready->fast) [[likely]]
      return run_fast(request, *ready);
  }
  return run_any(request);
}

inline Status Communicator::run_fast(const Request& request, const Prepared& ready) {
  recorder_->begin(ready.label, executor_->state().calls() + 1);
  Status status = ready.fast->run(*executor_, call_of(request, ready));
  if (status.ok()) [[likely]] {
    recorder_->end();
  } else {
    conclude(status);
  }
  return status;
}

[[gnu::noinline]] Status Communicator::run_any(const Request& request) {
  Status status = run_slowly(request);
  end_use_of_registered();
  return status;
}

Status Communicator::run_slowly(const Request& request) {
  if (request.counts != nullptr) return run_vectors(request);
  if (request.op != types::ReduceOp::kScaledSum) return run_plan(request);
  if (!status().ok()) return status();
  const Result<Request> scaled = contribute(request);
  return scaled.ok() ? run_plan(scaled.value()) : scaled.status();
}

Status Communicator::run_plan(const Request& request) {
  if (!status().ok()) return status();
  const Result<const Prepared*> prepared = prepare(request);
  if (!prepared.ok()) return prepared.status();
  const Prepared& ready = *prepared.value();
  executor_->state().describe(ready.described);
  if (ready.fast) return run_fast(request, ready);
  recorder_->begin(ready.label, executor_->state().calls() + 1);
  Status status = executor_->run(ready.program, call_of(request, ready));
  conclude(status);
  return status;
}

exec::Call Communicator::transfers_call(uint64_t own_timeout_ns) const {
  return {nullptr, nullptr, 0, deadline_of_call(own_timeout_ns), "send/recv", false};
}

Status Communicator::run(std::span<const exec::Transfer> transfers, uint64_t timeout_ns) {
  heed_failure();
  executor_->state().name_call(transfers_call(timeout_ns), pairs_.get());
  recorder_->begin(calls_->label(transfers), ++transfer_calls_, trace::Series::kTransfers);
  Status status = pairs_->run(transfers);
  if (status.ok()) [[likely]] {
    recorder_->end();
  } else {
    conclude(status);
  }
  return status;
}

uint64_t Communicator::queue(const Request& request) {
  return recorder_->queue(calls_->label(request));
}

uint64_t Communicator::queue(std::span<const exec::Transfer> transfers) {
  return recorder_->queue(calls_->label(transfers));
}

void Communicator::conclude(const Status& outcome) {
  executor_->state().end_wait();
  end_use_of_registered();
  recorder_->conclude(outcome.ok());
  if (!status().ok()) publish_failure();
}

Status Communicator::begin(const Request& request, uint64_t ticket) {
  heed_failure();
  outcome_ = Status();
  if (request.counts != nullptr) return begin_vectors(request, ticket);
  const Result<Request> scaled =
      status().ok() ? contribution_of(request) : Result<Request>(request);
  const Status ready = status().ok() ? scaled.status() : status();
  const Result<const Prepared*> prepared =
      ready.ok() ? prepare(scaled.value()) : Result<const Prepared*>(ready);
  const trace::Label label = prepared.ok() ? prepared.value()->label : calls_->label(request);
  recorder_->begin_queued(ticket, label, executor_->state().calls() + 1);
  if (!prepared.ok()) return prepared.status();
  active_ = Active::kPlan;
  executor_->state().describe(prepared.value()->described);
  executor_->start(prepared.value()->program, call_of(scaled.value(), *prepared.value()));
  return {};
}

Status Communicator::begin(std::span<const exec::Transfer> transfers, uint64_t timeout_ns,
                           uint64_t ticket) {
  heed_failure();
  recorder_->begin_queued(ticket, calls_->label(transfers), ++transfer_calls_,
                          trace::Series::kTransfers);
  if (!status().ok()) return status();
  active_ = Active::kPairs;
  outcome_ = Status();
  executor_->state().name_call(transfers_call(timeout_ns), pairs_.get());
  pairs_->start(transfers);
  return {};
}

exec::Progress Communicator::advance() {
  switch (active_) {
    case Active::kPairs:
      return pairs_->advance();
    case Active::kAccess:
      return advance_access();
    case Active::kPlan:
      break;
  }
  const exec::Progress progress = executor_->advance();
  if (progress != exec::Progress::kDone || !vectors_->open() || !status().ok()) return progress;
  return start_vectors() ? exec::Progress::kMoved : exec::Progress::kDone;
}

bool Communicator::idle(bool rare) {
  if (rare) {
    // Here, since the executor would blame whom it waits for.
    if (is_abort_ordered() && !failure().ok()) begin_failed();
    executor_->state().check_rare();
  }
  return membership_->has_streams() && executor_->state().poll_streams();
}

void Communicator::set_options(const CallOptions& options) {
  planner_->set_options(options);
  if (device_calls_ != nullptr) device_calls_->set_options(options);
  call_timeout_ns_.store(options.timeout_ns, std::memory_order_relaxed);
}

// Between calls nobody but who looks would tell the peers of an abort.
bool Communicator::is_still_well() {
  if (failure().ok()) return true;
  if (is_abort_ordered()) give_up();
  return false;
}

bool Communicator::begin_leaving(uint64_t timeout_ns, std::function<bool()> wanted) {
  // Who has left does not come to the barrier any more.
  if (!is_still_well() || ranks() == 1 || !failure_of_any().ok()) return false;
  began_leaving_ = true;
  wanted_elsewhere_ = std::move(wanted);
  calls_->be_quiet();
  executor_->state().begin_leaving();
  CallOptions options;
  options.timeout_ns = timeout_ns;
  planner_->set_options(options);
  return true;
}

// The last call of all has none behind it that would show that ranks called something else.
void Communicator::end_leaving() {
  if (!began_leaving_ || status().ok()) return;
  if (status().code() == Code::kInvalidUsage) {
    report("destroyed although the calls of its ranks differ, so results may be wrong: " +
           std::string(status().message()));
  }
  publish_failure();
}

}  // namespace tutti::comm
