#include "src/health/counters.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>

namespace tutti::health {
namespace {

using trace::CallRecord;
using trace::RecordState;

/// One metric: its lines have the same name.
class Metric {
 public:
  Metric(const char* name, const char* help, const char* type) : name_(name) {
    text_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Value>
  void add(const std::string& labels, Value value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, labels, value);
  }
  const std::string& text() const { return text_; }

 private:
  const char* name_;
  std::string text_;
};

// A label's value may hold neither of these as they are.
std::string label_value(const std::string& text) {
  std::string value;
  for (const char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value;
}

double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void CallCounters::add(const trace::Snapshot& snapshot, RankCount& count) {
  count.epoch = snapshot.epoch;
  for (const CallRecord& call : snapshot.calls) {
    if (call.order <= count.last_order) continue;
    // Calls end in order.
    if (call.state != RecordState::kDone && call.state != RecordState::kFailed) break;
    count.unseen += call.order - count.last_order - 1;
    count.last_order = call.order;
    CollectiveCount& own = count.collectives[call.collective];
    ++own.calls;
    own.failed += call.state == RecordState::kFailed ? 1 : 0;
    own.bytes += call.bytes;
    if (call.start_ns == 0 || call.end_ns < call.start_ns) continue;
    ++own.timed;
    own.timed_ns += call.end_ns - call.start_ns;
    if (call.waits_for >= 0 && call.end_ns >= call.wait_ns) {
      count.wait_ns[call.waits_for] += call.end_ns - call.wait_ns;
    }
  }
}

void CallCounters::add(const std::vector<trace::Snapshot>& snapshots) {
  for (const trace::Snapshot& one : snapshots) {
    add(one, ranks_[{one.communicator, one.rank, one.process}]);
  }
}

std::string CallCounters::prometheus_text() const {
  Metric calls("tutti_calls_total", "Calls that have ended.", "counter");
  Metric failed("tutti_calls_failed_total", "Calls that have ended with an error.", "counter");
  Metric bytes("tutti_bytes_total", "Bytes of one rank's message in calls that have ended.",
               "counter");
  Metric timed("tutti_timed_calls_total", "Calls whose duration was recorded.", "counter");
  Metric time("tutti_call_seconds_total", "Seconds in calls whose duration was recorded.",
              "counter");
  Metric waits("tutti_wait_seconds_total", "Seconds in which timed calls waited for a peer last.",
               "counter");
  Metric unseen("tutti_calls_unseen_total",
                "Calls that left the recorder before they were looked at.", "counter");
  Metric epoch("tutti_epoch", "The communicator's epoch: how often it was edited.", "gauge");
  for (const auto& [key, count] : ranks_) {
    const std::string rank =
        fmt::format("communicator=\"{:#x}\",rank=\"{}\"", std::get<0>(key), std::get<1>(key));
    // A rank has one number per communicator; a process that follows another replaces it.
    const auto next = ranks_.upper_bound(key);
    if (next != ranks_.end() && std::get<0>(next->first) == std::get<0>(key) &&
        std::get<1>(next->first) == std::get<1>(key)) {
      continue;
    }
    unseen.add(rank, count.unseen);
    epoch.add(rank, count.epoch);
    for (const auto& [name, own] : count.collectives) {
      const std::string labels = fmt::format("{},collective=\"{}\"", rank, label_value(name));
      calls.add(labels, own.calls);
      failed.add(labels, own.failed);
      bytes.add(labels, own.bytes);
      timed.add(labels, own.timed);
      time.add(labels, seconds(own.timed_ns));
    }
    for (const auto& [peer, ns] : count.wait_ns) {
      waits.add(fmt::format("{},peer=\"{}\"", rank, peer), seconds(ns));
    }
  }
  std::string text;
  for (const Metric* metric : {&calls, &failed, &bytes, &timed, &time, &waits, &unseen, &epoch}) {
    text += metric->text();
  }
  return text;
}

}  // namespace tutti::health
