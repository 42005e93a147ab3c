#include "src/comm/communicator.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/diagnosis/stall.h"

namespace tutti::comm {
namespace {

// For a peer that is in the middle of a piece when a window's part is ended, though calls may take
// longer: the thread that ends it may be the one that aborts next.
constexpr uint64_t kLongestCloseNs = 60 * kNanosecondsPerSecond;

// The link has two classes of frames: whoever asks for more than the default goes first.
transport::Priority class_of(int priority) {
  return priority > 0 ? transport::Priority::kHigh : transport::Priority::kNormal;
}

Status check_algorithm(std::span<const schedule::Algorithm> algorithms,
                       const CallOptions& options) {
  if (options.algorithm.empty()) return {};
  const size_t colon = std::min(options.algorithm.find(':'), options.algorithm.size());
  const std::string name = options.algorithm.substr(0, colon);
  const bool known = std::any_of(algorithms.begin(), algorithms.end(),
                                 [&](const auto& algorithm) { return algorithm.name == name; });
  if (!known) {
    return Status::invalid_argument("no collective has an algorithm named '" + options.algorithm +
                                    "'; see docs/algorithms.md");
  }
  if (colon == options.algorithm.size()) return {};
  const std::string_view lanes = std::string_view(options.algorithm).substr(colon + 1);
  const char* end = lanes.data() + lanes.size();
  uint16_t number = 0;
  const auto read = std::from_chars(lanes.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number > 0) return {};
  return Status::invalid_argument("'" + options.algorithm +
                                  "': behind the colon stands the number of lanes, from 1");
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(options)));
  const WaitLimit wait_limit = made->options_.membership.wait_limit;
  if (Status status = made->join(); !status.ok()) return status;
  if (Status status = made->open(wait_limit); !status.ok()) return status;
  made->complete_ = true;
  return made;
}

Status Communicator::join() {
  MembershipOptions joining = options_.membership;
  joining.watch = options_.watch;
  joining.processors = own_processors();
  if (options_.device != nullptr) {
    joining.device = options_.device->identity_of(options_.device_place);
    joining.bus_address = options_.device->bus_address_of(options_.device_place);
  }
  Result<std::unique_ptr<Membership>> membership = Membership::create(std::move(joining));
  if (!membership.ok()) return membership.status();
  membership_ = std::move(membership).value();
  survey_ = std::make_unique<ModelSurvey>(options_, *membership_);
  // Both were for joining, and hold descriptors and the communicator it came from.
  options_.membership.exchange = nullptr;
  options_.membership.make_room = nullptr;
  options_.membership.previous = nullptr;
  options_.membership.listener = nullptr;
  standing_ = std::make_unique<Standing>(*membership_, options_.membership.self,
                                         std::move(options_.history));
  options_.membership.wait_limit = kNoDeadline;
  return {};
}

Status Communicator::open(const WaitLimit& wait_limit) {
  const Membership& members = *membership_;
  const uint32_t before = config().calls_before;
  failure_ = std::make_unique<Failure>(members, *options_.membership.env->log);
  Result<std::unique_ptr<CallRecorder>> calls = make_recorder(options_, members);
  if (!calls.ok()) return calls.status();
  calls_ = std::move(calls).value();
  executor_ = std::make_unique<exec::HostExecutor>(
      executor_options_of(options_, members, calls_->recorder()), members.peers(), *failure_);
  memory_ = std::make_unique<MemoryTable>(members, executor_->registrations(), *failure_,
                                          options_.progress_thread, before);
  const uint64_t timeout_ns = options_.timeout_ns > 0 ? options_.timeout_ns : config().timeout_ns;
  frame_ =
      std::make_unique<CallFrame>(executor_->state(), *failure_, *memory_, *calls_, timeout_ns);
  transfers_ = std::make_unique<Transfers>(*executor_, *frame_, before);
  accesses_ = std::make_unique<Accesses>(*frame_, before);
  if (Status status = survey_->measure_host(*executor_, wait_limit); !status.ok()) return status;
  if (Status status = open_watch(); !status.ok()) return status;
  if (Status status = measure_network(wait_limit); !status.ok()) return status;
  return open_streams();
}

// The collectives of the user are planned by what was found.
Status Communicator::measure_network(const WaitLimit& wait_limit) {
  const CallBuffers buffers(*membership_, *memory_, config().single_copy_bytes);
  const SurveyedCalls calls{*executor_, *frame_, *transfers_,
                            *failure_,  buffers, [this](bool rare) { (void)idle(rare); }};
  if (Status status = survey_->measure_network(calls, wait_limit); !status.ok()) return status;
  collectives_ =
      std::make_unique<Collectives>(*membership_, *executor_, *frame_, buffers,
                                    planner_options_of(options_, *membership_, model(), *calls_));
  set_options(
      {.algorithm = {}, .deterministic = config().deterministic, .wire = options_.membership.wire});
  return {};
}

Status Communicator::open_streams() {
  const DeviceStreamsOptions wanted{.device = options_.device,
                                    .place = options_.device_place,
                                    .engine = options_.membership.engine,
                                    .least_ctas = options_.least_ctas,
                                    .most_ctas = options_.most_ctas,
                                    .env = options_.membership.env};
  streams_ = std::make_unique<DeviceStreams>(
      wanted, *membership_, *failure_, *calls_,
      [this](const std::string& text) { return gather_texts(text); });
  return streams_->open(collectives_->planner(),
                        [this] { return make_recorder(options_, *membership_); });
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

Communicator::~Communicator() {
  if (streams_ != nullptr) streams_->close();
  if (complete_)
    attempt([this] { survey_->keep(collectives_->planner().host(), calls_->recorder()); });
  if (membership_ != nullptr && !complete_) membership_->give_up();
  if (peer_watch_ != nullptr) peer_watch_->finish_meeting();
  if (membership_ != nullptr) membership_->stop_serving();
  if (memory_ != nullptr) {
    memory_->leave_progress_thread();
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
  failure_->abort(reason);
  // Before what may not come to its end for want of memory.
  executor_->state().fail(reason, failure_->cause_or_self());
  attempt([this] { memory_->shut(); });
  return reason;
}

Status Communicator::end_after(const std::exception& error) {
  Status reason = fail_after(error);
  attempt([&] { frame_->conclude(reason); });
  return reason;
}

bool Communicator::idle(bool rare) {
  if (rare) {
    // Here, since the executor would blame the rank that it waits for.
    if (failure_->is_abort_ordered() && !failure().ok()) frame_->fail_calls();
    executor_->state().check_rare();
  }
  return membership_->has_streams() && executor_->state().poll_streams();
}

void Communicator::begin_among_others(int priority) {
  executor_->state().give_way(true);
  executor_->state().prioritize(class_of(priority));
}

void Communicator::end_among_others() {
  executor_->state().give_way(false);
  executor_->state().prioritize(class_of(collectives_->planner().options().priority));
}

void Communicator::set_options(const CallOptions& options) {
  collectives_->planner().set_options(options);
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
  if (!failure_->has_begun_leaving() || frame_->status().ok()) return;
  if (frame_->status().code() == Code::kInvalidUsage) {
    failure_->report("destroyed although the calls of its ranks differ, so results may be wrong: " +
                     std::string(frame_->status().message()));
  }
  frame_->publish_failure();
}

Result<std::vector<std::string>> Communicator::gather_texts(const std::string& mine,
                                                            uint64_t timeout_ns) {
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
  extras.options = collectives_->planner().options();
  extras.options->algorithm.clear();
  if (timeout_ns > 0) extras.options->timeout_ns = timeout_ns;
  gather.extras = &extras;
  if (Status status = collectives_->run(gather); !status.ok()) return status;
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
      [this](const std::string& text) { return gather_texts(text); },
      [this](const WindowMemory& memory) { return streams_->share(memory); }, keep_closed);
}

Result<KeptMemory> Communicator::take_over(const MemorySource& source,
                                           const std::vector<std::string>& lists,
                                           const WaitLimit& wait_limit) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t left_ns =
      wait_limit.deadline_ns() - std::min(wait_limit.deadline_ns(), now_ns) + 1;
  Result<KeptMemory> kept = memory_->take_over(
      source, lists, {id(), options_.membership.self.epoch, 0},
      [&](const std::string& text) { return gather_texts(text, left_ns); },
      [&](const WindowMemory& memory) { return streams_->share(memory); });
  if (kept.ok()) {
    const Status taken = streams_->take_over(source.devices, kept.value());
    if (taken.ok()) return kept;
    kept = taken;
  }
  failure_->abort(kept.status());
  give_up();
  (void)close_windows(kStretchPatienceNs);
  return kept;
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

Result<uint64_t> Communicator::add_registration(const WindowMemory& mine) {
  Status failed;
  Result<uint64_t> number = memory_->add(
      mine, [this](const std::string& text) { return gather_texts(text); },
      [&](const WindowMemory& memory) { return streams_->add(memory, failed); });
  if (!number.ok() || failed.ok()) return number;
  (void)streams_->remove(number.value());
  return failed;
}

Status Communicator::remove_registration(uint64_t number) {
  return number < DevicePlaces::kFirstHandle ? memory_->remove(number) : streams_->remove(number);
}

Result<CallOptions> Communicator::accept(const CallOptions& asked) const {
  if (Status status = check_algorithm(options_.algorithms, asked); !status.ok()) return status;
  CallOptions wanted = asked;
  wanted.deterministic = wanted.deterministic || config().deterministic;
  return wanted;
}

}  // namespace tutti::comm
