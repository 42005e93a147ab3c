#include "src/comm/call_recorder.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <utility>

#include "src/trace/record_file.h"

namespace tutti::comm {
namespace {

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

void CallRecorder::tell_direct(const Request& request) {
  if (!env_.log->enabled(LogLevel::kInfo)) return;
  if (!told_direct_.insert(name_of(request)).second) return;
  env_.log->info("rank {} of id {:016x}: {} reads registered device memory where it lies", rank_,
                 communicator_, name_of(request));
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
  const std::string more = env_.config->trace_records == 0 ? "" : keep_record(reason);
  if (more.empty()) return env_.log->error("{}", reason.message());
  env_.log->error_with(reason.message(), more);
}

// The end of the log's one line, behind the reason: the call, and where everything else is.
std::string CallRecorder::keep_record(const Status& reason) const {
  const uint64_t now_ns = env_.now_ns();
  const Result<trace::Snapshot> snapshot = trace::read(recorder_->file());
  if (!snapshot.ok()) return "";
  std::string text = trace::last_call_text(snapshot.value(), now_ns);
  const Config& config = *env_.config;
  if (config.trace_file.empty()) return text;
  const std::string path = expand_log_path(config.trace_file);
  const trace::FailureRecord failure{std::string(reason.message()), now_ns,
                                     static_cast<uint64_t>(std::time(nullptr))};
  const bool is_own = config.origins.contains("TUTTI_TRACE_FILE");
  const Status kept = is_own ? trace::append_record(path, failure, recorder_->file())
                             : trace::append_private_record(path, failure, recorder_->file());
  if (!text.empty()) text += "; ";
  if (kept.ok()) return text + "its last calls: tutti trace dump " + path;
  return text + "its last calls could not be kept in '" + path +
         "': " + std::string(kept.message()) + " (TUTTI_TRACE_FILE names another file)";
}

}  // namespace tutti::comm
