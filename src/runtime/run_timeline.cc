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

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

size_t bytes_of(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt32:
    case tuttiUint32:
    case tuttiFloat32:
      return 4;
    case tuttiInt64:
    case tuttiUint64:
    case tuttiFloat64:
      return 8;
    case tuttiFloat16:
    case tuttiBfloat16:
      return 2;
    default:
      return 1;
  }
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

/// Channels in as few groups as come to mind, disjoint in each: their communicators are made
/// together.
std::vector<std::vector<int>> batches_of(const std::vector<RankSet>& channels) {
  std::vector<std::vector<int>> batches;
  for (int c = 0; c < std::ssize(channels); ++c) {
    const auto is_free = [&](const std::vector<int>& batch) {
      return std::none_of(batch.begin(), batch.end(), [&](int other) {
        const auto ranks = channels[at(c)].ranks();
        return std::any_of(ranks.begin(), ranks.end(),
                           [&](int rank) { return channels[at(other)].place_of(rank) >= 0; });
      });
    };
    const auto found = std::find_if(batches.begin(), batches.end(), is_free);
    (found == batches.end() ? batches.emplace_back() : *found).push_back(c);
  }
  return batches;
}

}  // namespace

class TimelineRunner::Impl {
 public:
  Impl(tuttiComm_t comm, Timeline timeline, RunOptions options)
      : comm_(comm), timeline_(std::move(timeline)), options_(options), made_(comm) {
    // First, so that all ranks refuse a faulty timeline or none does.
    agree(comm, fingerprint(timeline_), "the timeline");
    expect_sound(timeline_);
    require(timeline_.ranks == made_.ranks(), "the timeline is for ", timeline_.ranks,
            " ranks and the communicator has ", made_.ranks());
    channels_.assign(timeline_.channels.size(), nullptr);
    for (const std::vector<int>& batch : batches_of(timeline_.channels)) {
      std::vector<RankSet> groups;
      for (const int c : batch) groups.push_back(timeline_.channels[at(c)]);
      const tuttiComm_t own = made_.make_own(groups);
      for (const int c : batch) {
        if (timeline_.channels[at(c)].place_of(made_.rank()) >= 0) channels_[at(c)] = own;
      }
    }
    for (int t = 0; t < std::ssize(timeline_.tasks); ++t) {
      const TimelineTask& task = timeline_.tasks[at(t)];
      if (task.rank == made_.rank()) tracks_[at(static_cast<int>(task.track))].push_back(t);
    }
    for (tuttiStream_t& stream : streams_) {
      expect_success(tuttiStreamCreate(&stream), nullptr, "tuttiStreamCreate");
    }
  }

  ~Impl() {
    for (const tuttiStream_t& stream : streams_) {
      if (stream.handle != nullptr) tuttiStreamDestroy(stream);
    }
  }

  const Timeline& timeline() const { return timeline_; }

  History run(const TimelineWork& work) {
    require(failure_ == nullptr, "an earlier run of this timeline failed; make a new runner");
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
      const bool own = timeline_.tasks[t].rank == made_.rank();
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
    for (const tuttiComm_t channel : channels_) {
      if (channel != nullptr) tuttiCommAbort(channel);
    }
  }

  void run_task(const TimelineTask& task, size_t track) {
    if (!communicates(task.kind)) return work_->compute(task);
    const Payload payload = work_->payload(task);
    const size_t size = bytes_of(payload.type);
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
    call.root = task.kind == TaskKind::kSend ? 1 : 0;  // the channel's places
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.priority = task.track == Track::kCommHigh ? 1 : 0;
    // The others reduce nothing.
    options.deterministic = options_.deterministic && (task.kind == TaskKind::kAllReduce ||
                                                       task.kind == TaskKind::kReduceScatter);
    const tuttiComm_t channel = channels_[at(task.channel)];
    tuttiRequest_t request = nullptr;
    expect_success(tuttiSubmit(&call, channel, streams_[track], &options, &request), channel,
                   task.name);
    expect_success(tuttiRequestWait(request), channel, task.name);
  }

  tuttiComm_t comm_;
  Timeline timeline_;
  RunOptions options_;
  Communicators made_;
  std::vector<tuttiComm_t> channels_;  // null where this rank is no member
  std::array<std::vector<int>, kTracks> tracks_;
  std::array<tuttiStream_t, kTracks> streams_{};
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
History TimelineRunner::gather() { return impl_->gather(); }
const Timeline& TimelineRunner::timeline() const { return impl_->timeline(); }

}  // namespace tutti::runtime
