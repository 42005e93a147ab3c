#include "tutti/runtime/run_timeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/data_types.h"
#include "src/runtime/epoch.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_channels.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

tuttiCollective_t collective_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kSend:
      return tuttiCollSend;
    case TaskKind::kRecv:
      return tuttiCollRecv;
    case TaskKind::kAllGather:
      return tuttiCollAllGather;
    case TaskKind::kReduceScatter:
      return tuttiCollReduceScatter;
    case TaskKind::kAllToAll:
      return tuttiCollAllToAll;
    default:
      return tuttiCollAllReduce;
  }
}

}  // namespace

class TimelineRunner::Impl {
 public:
  Impl(tuttiComm_t comm, Timeline timeline, RunOptions options)
      : comm_(comm), epoch_(epoch_of(comm)), options_(options), channels_(comm, options.most_ctas) {
    change(std::move(timeline));
    for (size_t track = 0; track < kTracks; ++track) {
      if (options_.streams[track].kind != tuttiStreamBlocking) continue;
      expect_success(tuttiStreamCreate(&own_streams_[track]), "tuttiStreamCreate");
      options_.streams[track] = own_streams_[track];
    }
  }

  void change(Timeline timeline) {
    require(failure_ == nullptr, "an earlier run of this runner failed; make a new runner");
    expect_epoch(comm_, epoch_, "the runner");
    // First, so that all ranks refuse a faulty timeline or none does.
    agree(comm_, fingerprint(timeline), "the timeline");
    expect_sound(timeline);
    require(timeline.ranks == channels_.ranks(), "the timeline is for ", timeline.ranks,
            " ranks and the communicator has ", channels_.ranks());
    places_ = channels_.place(timeline);
    timeline_ = std::move(timeline);
    history_ = {};
    for (std::vector<int>& track : tracks_) track.clear();
    for (int t = 0; t < std::ssize(timeline_.tasks); ++t) {
      const TimelineTask& task = timeline_.tasks[at(t)];
      if (task.rank == channels_.rank()) tracks_[at(static_cast<int>(task.track))].push_back(t);
    }
  }

  int communicators() const { return channels_.splits(); }

  ~Impl() {
    for (const tuttiStream_t& stream : own_streams_) {
      if (stream.handle != nullptr) tuttiStreamDestroy(stream);
    }
  }

  const Timeline& timeline() const { return timeline_; }

  History run(const TimelineWork& work) {
    require(failure_ == nullptr, "an earlier run of this timeline failed; make a new runner");
    expect_epoch(comm_, epoch_, "the runner");
    require(work.compute != nullptr && work.payload != nullptr,
            "a timeline runs with both callbacks: compute and payload");
    work_ = &work;
    done_.assign(timeline_.tasks.size(), false);
    history_.spans.assign(timeline_.tasks.size(), {});
    expect_success(tuttiBarrier(comm_, tuttiBlocking()), comm_, "tuttiBarrier");
    start_ = now_ns();
    std::vector<std::thread> threads;
    try {
      for (size_t track = 1; track < kTracks; ++track) {
        if (!tracks_[track].empty()) threads.emplace_back([this, track] { run_track(track); });
      }
    } catch (...) {  // no more threads: those that have begun end
      fail(std::current_exception());
    }
    run_track(0);
    for (std::thread& thread : threads) thread.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    return history_;
  }

  History gather() {
    require(history_.spans.size() == timeline_.tasks.size() && failure_ == nullptr,
            "there is no finished run to gather");
    int64_t first = 0;
    expect_success(tuttiAllReduce(&start_, &first, 1, tuttiInt64, tuttiMin, comm_, tuttiBlocking()),
                   comm_, "tuttiAllReduce");
    // Each span is one rank's; all others bring 0.
    std::vector<int64_t> words;
    for (size_t t = 0; t < timeline_.tasks.size(); ++t) {
      const bool own = timeline_.tasks[t].rank == channels_.rank();
      const TaskSpan& span = history_.spans[t];
      for (const Nanoseconds time : {span.ready, span.begin, span.end}) {
        words.push_back(own ? time.value + start_ - first : 0);
      }
    }
    expect_success(tuttiAllReduce(words.data(), words.data(), words.size(), tuttiInt64, tuttiSum,
                                  comm_, tuttiBlocking()),
                   comm_, "tuttiAllReduce");
    History all;
    for (size_t t = 0; t < timeline_.tasks.size(); ++t) {
      all.spans.push_back({Nanoseconds(words[3 * t]), Nanoseconds(words[3 * t + 1]),
                           Nanoseconds(words[3 * t + 2])});
    }
    return all;
  }

 private:
  Nanoseconds elapsed() const { return Nanoseconds(now_ns() - start_); }

  void run_track(size_t track) {
    try {
      for (const int t : tracks_[track]) {
        if (!wait_for(timeline_.tasks[at(t)])) return;
        TaskSpan& span = history_.spans[at(t)];
        span.ready = span.begin = elapsed();
        run_task(timeline_.tasks[at(t)], track);
        span.end = elapsed();
        const std::lock_guard lock(mutex_);
        done_[at(t)] = true;
        changed_.notify_all();
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }

  /// False if the run has failed.
  bool wait_for(const TimelineTask& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return failure_ != nullptr ||
             std::all_of(task.after.begin(), task.after.end(), [&](int t) { return done_[at(t)]; });
    });
    return failure_ == nullptr;
  }

  /// The first failure counts. Peers that wait for this rank learn of it by their channels.
  void fail(std::exception_ptr why) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ != nullptr) return;
      failure_ = std::move(why);
      changed_.notify_all();
    }
    channels_.abort();
  }

  void run_task(const TimelineTask& task, size_t track) {
    if (!communicates(task.kind)) return work_->compute(task);
    const Payload payload = work_->payload(task);
    const size_t size = at(bytes_of(payload.type));
    require(payload.count * size == static_cast<size_t>(task.bytes.value), "the payload of task '",
            task.name, "' has ", payload.count * size, " bytes and the timeline says ",
            task.bytes.value, "; make them agree");
    const bool divides = task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv ||
                         task.kind == TaskKind::kAllReduce;
    const size_t chunk = divides && task.chunk > Bytes(0)
                             ? std::max<size_t>(1, static_cast<size_t>(task.chunk.value) / size)
                             : payload.count;
    for (size_t done = 0; done < payload.count; done += chunk) {
      Payload part = payload;
      part.count = std::min(chunk, payload.count - done);
      if (part.send != nullptr) part.send = static_cast<const char*>(part.send) + done * size;
      if (part.recv != nullptr) part.recv = static_cast<char*>(part.recv) + done * size;
      communicate(task, part, track);
    }
  }

  void communicate(const TimelineTask& task, const Payload& payload, size_t track) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = collective_of(task.kind);
    call.send = payload.send;
    call.recv = payload.recv;
    call.count = payload.count;
    call.type = payload.type;
    call.op = payload.op;
    const TimelineChannels::ChannelPlace& place = places_[at(task.channel)];
    const int end = task.kind == TaskKind::kSend ? 1 : 0;  // the other one, of a message
    call.root = place.is_trunk ? timeline_.channels[at(task.channel)][end] : end;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.priority = task.track == Track::kCommHigh ? 1 : 0;
    // The others reduce nothing.
    options.deterministic = options_.deterministic && (task.kind == TaskKind::kAllReduce ||
                                                       task.kind == TaskKind::kReduceScatter);
    tuttiRequest_t request = nullptr;
    expect_success(tuttiSubmit(&call, place.comm, options_.streams[track], &options, &request),
                   task.name);
    expect_success(tuttiRequestWait(request), task.name);
  }

  tuttiComm_t comm_;
  uint32_t epoch_;
  Timeline timeline_;
  RunOptions options_;
  TimelineChannels channels_;
  std::vector<TimelineChannels::ChannelPlace> places_;  // of each channel
  std::array<std::vector<int>, kTracks> tracks_;
  std::array<tuttiStream_t, kTracks> own_streams_{};
  const TimelineWork* work_ = nullptr;
  History history_;
  int64_t start_ = 0;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<bool> done_;
  std::exception_ptr failure_;
};

TimelineRunner::TimelineRunner(tuttiComm_t comm, Timeline timeline, RunOptions options)
    : impl_(std::make_unique<Impl>(comm, std::move(timeline), options)) {}
TimelineRunner::~TimelineRunner() = default;
History TimelineRunner::run(const TimelineWork& work) { return impl_->run(work); }
void TimelineRunner::change(Timeline timeline) { impl_->change(std::move(timeline)); }
int TimelineRunner::communicators() const { return impl_->communicators(); }
History TimelineRunner::gather() { return impl_->gather(); }
const Timeline& TimelineRunner::timeline() const { return impl_->timeline(); }

}  // namespace tutti::runtime
