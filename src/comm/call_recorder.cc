#include "src/comm/call_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "src/trace/reader.h"

namespace tutti::comm {
namespace {

constexpr size_t kLoggedCalls = 8;
constexpr size_t kLoggedExchanges = 8;  // of a call that failed

template <size_t kCount>
uint8_t at(const uint8_t (&numbers)[kCount], size_t index) {
  return index < kCount ? numbers[index] : 0;
}

}  // namespace

Result<std::unique_ptr<CallRecorder>> CallRecorder::create(const Env& env,
                                                           trace::RecorderOptions options) {
  options.records = env.config->trace_records;
  Result<std::unique_ptr<trace::Recorder>> recorder = trace::Recorder::create(options);
  if (!recorder.ok()) return recorder.status();
  std::unique_ptr<CallRecorder> made(new CallRecorder(env, options, std::move(recorder).value()));
  made->name_everything();
  return made;
}

void CallRecorder::name_everything() {
  for (int i = 0; i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    collectives_[i] = recorder_->name(schedule::name_of(collective));
    const char* with_counts = vector_name_of(collective);
    if (*with_counts != '\0') vectors_[i] = recorder_->name(with_counts);
  }
  for (int i = 0; i < types::kDataTypes; ++i) {
    types_[i] = recorder_->name(types::name_of(static_cast<types::DataType>(i)));
  }
  for (int i = 0; i < types::kNamedReduceOps; ++i) {
    ops_[i] = recorder_->name(types::name_of(static_cast<types::ReduceOp>(i)));
  }
  for (int i = 0; i < kAccessKinds; ++i) {
    accesses_[i] = recorder_->name(name_of(static_cast<Access::Kind>(i)));
  }
  send_ = recorder_->name("send");
  receive_ = recorder_->name("recv");
  both_ = recorder_->name("send/recv");
}

trace::Label CallRecorder::label(const Request& request, std::string_view algorithm) {
  trace::Description description;
  const bool has_counts = request.counts != nullptr;
  description.collective =
      at(has_counts ? vectors_ : collectives_, static_cast<size_t>(request.collective));
  if (request.collective != schedule::Collective::kBarrier) {
    description.type = at(types_, static_cast<size_t>(request.type));
    const uint64_t count = has_counts ? longest_of(*request.counts) : request.count;
    description.bytes = count * types::size_of(request.type);
  }
  if (schedule::reduces(request.collective)) {
    description.op = at(ops_, static_cast<size_t>(request.op));
  }
  if (schedule::traits_of(request.collective).rooted()) description.root = request.root;
  if (!algorithm.empty()) description.algorithm = recorder_->name(algorithm);
  return trace::label_of(description);
}

void CallRecorder::tell_choice(const Request& request, std::string_view algorithm) {
  if (!env_.log->enabled(LogLevel::kInfo)) return;
  const bool has_counts = request.counts != nullptr;
  const uint64_t count = has_counts ? longest_of(*request.counts) : request.count;
  const int bits = static_cast<int>(std::bit_width(count * types::size_of(request.type)));
  if (bits == 0 || !told_.emplace(request.collective, bits).second) return;  // not of a barrier
  const uint64_t least = uint64_t{1} << (bits - 1);
  env_.log->info("rank {} of id {:016x}: {} of {} to {} bytes: {}", rank_, communicator_,
                 name_of(request), least, 2 * least - 1, algorithm);
}

trace::Label CallRecorder::label(std::span<const exec::Transfer> transfers) const {
  trace::Description description;
  if (transfers.empty()) return trace::label_of(description);
  description.collective = transfers.size() > 1 ? both_ : transfers[0].is_send ? send_ : receive_;
  const exec::Transfer& first = transfers[0];
  const auto all_have = [&](auto member) {
    return std::all_of(transfers.begin(), transfers.end(),
                       [&](const auto& transfer) { return transfer.*member == first.*member; });
  };
  if (all_have(&exec::Transfer::peer)) description.root = static_cast<int>(first.peer);
  if (all_have(&exec::Transfer::type))
    description.type = at(types_, static_cast<size_t>(first.type));
  for (const exec::Transfer& transfer : transfers) description.bytes += transfer.bytes;
  return trace::label_of(description);
}

trace::Label CallRecorder::label(const Access& access) const {
  trace::Description description;
  description.collective = at(accesses_, static_cast<size_t>(access.kind));
  description.root = static_cast<int>(access.peer);
  description.bytes = access.bytes;
  return trace::label_of(description);
}

void CallRecorder::dump(const Status& reason) {
  if (dumped_.exchange(true)) return;
  env_.log->error("{}", reason.message());
  if (env_.config->trace_records == 0) return;
  const Result<trace::Snapshot> snapshot = trace::read(recorder_->file());
  if (!snapshot.ok()) return;
  const uint64_t now_ns = env_.now_ns();
  const std::vector<trace::CallRecord>& calls = snapshot.value().calls;
  for (size_t i = calls.size() - std::min(calls.size(), kLoggedCalls); i < calls.size(); ++i) {
    const int rank = snapshot.value().rank;
    env_.log->warning("rank {}: {}", rank, trace::to_line(calls[i], now_ns));
    if (calls[i].state != trace::State::kFailed) continue;
    for (const std::string& line : trace::to_lines(calls[i], kLoggedExchanges)) {
      env_.log->warning("rank {}:   {}", rank, line);
    }
  }
  if (env_.config->trace_file.empty()) return;
  const std::string path = expand_log_path(env_.config->trace_file);
  constexpr mode_t kMode = 0644;
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  const std::string failed = "TUTTI_TRACE_FILE: cannot write '" + path + "'";
  if (!file.valid()) return env_.log->warning("{}", errno_status(failed).message());
  const std::string text =
      std::string(reason.message()) + "\n" + trace::to_text(snapshot.value(), now_ns);
  // One write, as a log line: the ranks of a job may share the file.
  const ssize_t count = write(file.get(), text.data(), text.size());
  if (count < 0) return env_.log->warning("{}", errno_status(failed).message());
  if (static_cast<size_t>(count) < text.size()) env_.log->warning("{}: it is cut off", failed);
}

}  // namespace tutti::comm
