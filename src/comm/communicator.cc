#include "src/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/wait.h"
#include "src/diagnosis/stall.h"

namespace tutti::comm {
namespace {

// For a peer that is in the middle of a piece when a window's part is ended, though calls may take
// longer: the thread that ends it may be the one that aborts next.
constexpr uint64_t kLongestCloseNs = 60 * kNanosecondsPerSecond;

uint32_t spins_of(const Config& config, const Membership& members) {
  if (config.spin_polls > 0) return config.spin_polls;
  return spins_for({.sharing = members.domain_size(),
                    .cores = members.cores(),
                    .has_streams = members.domain_size() < members.ranks()});
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(options)));
  const Patience patience = made->options_.membership.patience;
  if (Status status = made->join(); !status.ok()) return status;
  if (Status status = made->open(patience); !status.ok()) return status;
  made->complete_ = true;
  return made;
}

Status Communicator::join() {
  MembershipOptions joining = options_.membership;
  joining.watch = options_.watch;
  joining.processors = own_processors();
  if (options_.device != nullptr) {
    joining.device = options_.device->identity_of(options_.device_place);
  }
  Result<std::unique_ptr<Membership>> membership = Membership::create(std::move(joining));
  if (!membership.ok()) return membership.status();
  membership_ = std::move(membership).value();
  model_ = membership_->model();
  // Both were for joining, and hold descriptors and the communicator it came from.
  options_.membership.exchange = nullptr;
  options_.membership.make_room = nullptr;
  options_.membership.previous = nullptr;
  options_.membership.listener = nullptr;
  history_ = std::move(options_.history);
  options_.membership.patience = kNoDeadline;
  return {};
}

exec::ExecutorOptions Communicator::executor_options() const {
  exec::ExecutorOptions execution;
  execution.rank = rank();
  execution.ranks = ranks();
  execution.communicator = id();
  execution.epoch = options_.membership.self.epoch;
  execution.spins = spins_of(config(), *membership_);
  execution.layout = options_.membership.layout;
  execution.staging_stores = config().staging_stores;
  execution.slow_ns = config().slow_ns;
  execution.calls_before = config().calls_before;
  execution.first_progress = uint64_t{config().calls_before} + 1;
  execution.recorder = &calls_->recorder();
  return execution;
}

void Communicator::open_collectives(PlannerOptions planning) {
  collectives_ = std::make_unique<Collectives>(
      *membership_, *executor_, *frame_,
      CallBuffers(*membership_, *memory_, config().single_copy_bytes), std::move(planning));
  active_ = collectives_.get();
  set_options({.algorithm = {}, .deterministic = config().deterministic, .wire = wire()});
}

Status Communicator::open(const Patience& patience) {
  const Membership& members = *membership_;
  const uint32_t before = config().calls_before;
  failure_ = std::make_unique<Failure>(members, *options_.membership.env->log);
  Result<std::unique_ptr<CallRecorder>> calls = make_recorder();
  if (!calls.ok()) return calls.status();
  calls_ = std::move(calls).value();
  executor_ = std::make_unique<exec::HostExecutor>(executor_options(), members.peers(), *failure_);
  memory_ = std::make_unique<MemoryTable>(members, executor_->registrations(), *failure_,
                                          options_.attendant, before);
  const uint64_t timeout_ns = options_.timeout_ns > 0 ? options_.timeout_ns : config().timeout_ns;
  frame_ =
      std::make_unique<CallFrame>(executor_->state(), *failure_, *memory_, *calls_, timeout_ns);
  if (Status status = measure_host(patience); !status.ok()) return status;
  open_collectives(planner_options());
  transfers_ = std::make_unique<Transfers>(*executor_, *frame_, before);
  accesses_ = std::make_unique<Accesses>(*frame_, before);
  if (Status status = open_watch(); !status.ok()) return status;
  if (Status status = measure_network(patience); !status.ok()) return status;
  return open_device();
}

Status Communicator::open_watch() {
  if (options_.watch == nullptr) return {};
  Result<std::unique_ptr<diagnosis::PeerWatch>> peers = diagnosis::PeerWatch::create(
      *options_.watch, *membership_->group(), executor_->state().stall(), *failure_);
  if (!peers.ok()) return peers.status();
  peer_watch_ = std::move(peers).value();
  failure_->look_with(peer_watch_.get());
  memory_->tell(peer_watch_.get());
  return {};
}

Result<std::unique_ptr<CallRecorder>> Communicator::make_recorder() const {
  trace::RecorderOptions options;
  options.communicator = id();
  options.epoch = options_.membership.self.epoch;
  options.rank = rank();
  options.ranks = ranks();
  options.host = membership_->profiles()[static_cast<size_t>(rank())].host;
  return CallRecorder::create(*options_.membership.env, options);
}

Communicator::~Communicator() {
  device_calls_.reset();
  if (membership_ != nullptr) attempt([this] { keep_model(); });
  if (membership_ != nullptr && !complete_) membership_->give_up();
  if (peer_watch_ != nullptr) peer_watch_->finish_meeting();
  if (membership_ != nullptr) membership_->stop_serving();
  if (memory_ != nullptr) {
    memory_->leave_attendant();
    memory_->tell(nullptr);
  }
  if (failure_ != nullptr) failure_->look_with(nullptr);
  peer_watch_.reset();
}

void Communicator::give_up() {
  Status reason = failure_->check();
  executor_->state().fail(std::move(reason), failure_->cause_or_self());
  memory_->shut();
}

Status Communicator::fail_after(const std::exception& error) {
  const Status reason = status_of(error);
  abort(reason);
  // Before what may not come to its end for want of memory.
  executor_->state().fail(reason, failure_->cause_or_self());
  attempt([this] { memory_->shut(); });
  return reason;
}

Status Communicator::end_after(const std::exception& error) {
  Status reason = fail_after(error);
  attempt([&] { conclude(reason); });
  return reason;
}

uint64_t Communicator::queue(const Request& request) {
  return calls_->recorder().queue(calls_->label(request));
}

uint64_t Communicator::queue(std::span<const exec::Transfer> transfers) {
  return calls_->recorder().queue(calls_->label(transfers));
}

uint64_t Communicator::queue(const Access& access) {
  return calls_->recorder().queue(calls_->label(access));
}

Status Communicator::begin(const Request& request, uint64_t ticket) {
  active_ = collectives_.get();
  return collectives_->begin(request, ticket);
}

Status Communicator::begin(std::span<const exec::Transfer> transfers, uint64_t timeout_ns,
                           uint64_t ticket) {
  active_ = transfers_.get();
  return transfers_->begin(transfers, timeout_ns, ticket);
}

Status Communicator::begin(const Access& access, uint64_t timeout_ns, uint64_t ticket) {
  active_ = accesses_.get();
  return accesses_->begin(access, timeout_ns, ticket);
}

bool Communicator::idle(bool rare) {
  if (rare) {
    // Here, since the executor would blame the rank that it waits for.
    if (failure_->is_abort_ordered() && !failure().ok()) frame_->fail_calls();
    executor_->state().check_rare();
  }
  return membership_->has_streams() && executor_->state().poll_streams();
}

// The link has two classes of frames: whoever asks for more than the default goes first.
static transport::Priority class_of(int priority) {
  return priority > 0 ? transport::Priority::kHigh : transport::Priority::kNormal;
}

void Communicator::begin_among_others(int priority) {
  executor_->state().give_way(true);
  executor_->state().prioritize(class_of(priority));
}

void Communicator::end_among_others() {
  executor_->state().give_way(false);
  executor_->state().prioritize(class_of(options().priority));
}

void Communicator::set_options(const CallOptions& options) {
  collectives_->planner().set_options(options);
  if (device_calls_ != nullptr) device_calls_->set_options(options);
  call_timeout_ns_.store(options.timeout_ns, std::memory_order_relaxed);
  executor_->state().prioritize(class_of(options.priority));
}

// Between calls nobody but a thread that looks would tell the peers of an abort.
bool Communicator::is_still_well() {
  if (failure().ok()) return true;
  if (failure_->is_abort_ordered()) give_up();
  return false;
}

bool Communicator::begin_leaving(uint64_t timeout_ns, std::function<bool()> wanted) {
  // A rank that has left does not come to the barrier any more.
  if (!is_still_well() || ranks() == 1 || !failure_of_any().ok()) return false;
  failure_->begin_leaving(std::move(wanted));
  calls_->be_quiet();
  executor_->state().begin_leaving();
  CallOptions options;
  options.timeout_ns = timeout_ns;
  collectives_->planner().set_options(options);
  return true;
}

// The last call of all has none behind it that would show that ranks called something else.
void Communicator::end_leaving() {
  if (!failure_->has_begun_leaving() || status().ok()) return;
  if (status().code() == Code::kInvalidUsage) {
    failure_->report("destroyed although the calls of its ranks differ, so results may be wrong: " +
                     std::string(status().message()));
  }
  frame_->publish_failure();
}

Result<std::vector<std::string>> Communicator::gather_texts(const std::string& mine) {
  constexpr size_t kSlot = 512;
  if (mine.size() + 1 > kSlot) return Status::internal_error("a memory handle is too long");
  std::vector<char> send(kSlot, 0), recv(kSlot * static_cast<size_t>(ranks()), 0);
  std::copy(mine.begin(), mine.end(), send.begin());
  Request gather;
  gather.collective = schedule::Collective::kAllGather;
  gather.op = types::ReduceOp::kMax;  // as no all_gather of the user's: the signatures differ
  gather.count = kSlot;
  gather.send = send.data();
  gather.recv = recv.data();
  Extras extras;  // not the algorithm that the user's calls are to take: it may have no such form
  extras.options = this->options();
  extras.options->algorithm.clear();
  gather.extras = &extras;
  if (Status status = run(gather); !status.ok()) return status;
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks(); ++rank) {
    const char* text = recv.data() + kSlot * static_cast<size_t>(rank);
    texts.emplace_back(text, strnlen(text, kSlot));
  }
  return texts;
}

Result<Window*> Communicator::open_window(const WindowMemory& mine, bool keep_closed) {
  return memory_->open(
      mine, {id(), options_.membership.self.epoch, 0},
      [this](const std::string& text) { return gather_texts(text); }, keep_closed);
}

Status Communicator::close_window(Window* window) {
  const uint64_t timeout_ns = call_timeout_ns_.load(std::memory_order_relaxed);
  const uint64_t longest_ns = monotonic_ns() + kLongestCloseNs;
  return memory_->close(window, std::min(frame_->deadline_of(timeout_ns), longest_ns));
}

Status Communicator::close_windows(uint64_t timeout_ns) {
  const uint64_t deadline_ns = deadline_after(timeout_ns);
  const bool was_well = is_still_well();
  memory_->close_all(deadline_ns);
  const Status known = failure();
  if (known.ok()) return {};
  if (was_well) give_up();  // nobody is in a call that would tell the peers
  Status alone = memory_->left_alone(known);
  // A worker that leaves has nobody to return it to.
  if (!alone.ok()) failure_->report(std::string(alone.message()));
  return alone;
}

std::string Communicator::explain(const Request& request) {
  std::string text = options_.origin.empty() ? "" : options_.origin + "\n";
  text += collectives_->explain(request);
  if (device_calls_ != nullptr) {
    const EngineWish asked = options().engine;
    const bool in_place = collectives_->is_in_place(request);
    text += device_calls_->explain(request, in_place, asked, engine_for(asked)) + "\n";
  }
  return text;
}

// With the next rank, if there is one.
std::string Communicator::explain_transfer(bool is_send, uint64_t count, types::DataType type) {
  exec::Transfer transfer;
  transfer.peer = static_cast<uint32_t>((rank() + 1) % ranks());
  transfer.is_send = is_send;
  transfer.bytes = count * types::size_of(type);
  const bool is_near = membership_->peers()[transfer.peer].arena.valid();
  std::string text = std::string(is_send ? "send" : "recv") + " of " + std::to_string(count) + " " +
                     types::name_of(type) + " on " + std::to_string(ranks()) + " ranks: ";
  text += is_near ? "in pieces of " + std::to_string(exec::PairChannel::kPieceBytes) +
                        " bytes through the arena of the sender"
                  : "as a message";
  text += ", over " + membership_->transports() + "\n";
  if (device_calls_ != nullptr) {
    const EngineWish asked = options().engine;
    text += device_calls_->explain(transfer, asked, engine_for(asked)) + "\n";
  }
  return text;
}

Result<double> Communicator::predict_ns(const Request& request) {
  return collectives_->predict_ns(request);
}

double Communicator::predict_ns(std::span<const exec::Transfer> transfers) const {
  uint64_t sent = 0, received = 0;
  for (const exec::Transfer& transfer : transfers) {
    (transfer.is_send ? sent : received) += transfer.bytes;
  }
  return collectives_->planner().predict_ns(transfers.size(), std::max(sent, received));
}

double Communicator::predict_ns(const Access& access) const {
  return collectives_->planner().predict_ns(1, access.bytes);
}

}  // namespace tutti::comm
