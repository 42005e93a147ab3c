// How recorded calls are printed: for people, and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iterator>

#include "src/trace/reader.h"

namespace tutti::trace {
namespace {

constexpr double kSecond = 1e9;
constexpr size_t kShownExchanges = 16;  // of a call, in text
constexpr size_t kShownMessages = 64;   // likewise
constexpr int kIndent = 26;             // below the name of the collective

const char* name_of(RecordState state) {
  switch (state) {
    case RecordState::kNone:
      return "?";
    case RecordState::kQueued:
      return "queued";
    case RecordState::kRunning:
      return "running";
    case RecordState::kDone:
      return "done";
    case RecordState::kFailed:
      return "failed";
  }
  return "?";
}

/// A call of a peer, or of this rank, in the series it belongs to.
std::string name_of(Series series, uint32_t number) {
  if (number == 0) return "-";
  constexpr const char* kPrefixes[] = {"", "p2p ", "win ", "dev "};
  return kPrefixes[static_cast<size_t>(series)] + std::to_string(number);
}

const char* json_name_of(Series series) {
  constexpr const char* kNames[] = {"collective", "point_to_point", "one_sided", "device"};
  return kNames[static_cast<size_t>(series)];
}

const char* json_name_of(PeerState state) {
  constexpr const char* kNames[] = {"unknown", "elsewhere", "waits", "gave_up"};
  return kNames[static_cast<size_t>(state)];
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string or_dash(int64_t number, int64_t none) {
  return number == none ? "-" : std::to_string(number);
}

/// Seconds between two times that may have been taken in any order.
double seconds(uint64_t from_ns, uint64_t to_ns) {
  return static_cast<double>(static_cast<int64_t>(to_ns - from_ns)) / kSecond;
}

std::string duration(const CallRecord& call) {
  if (call.start_ns == 0 || call.end_ns == 0) return "-";
  return fmt::format("{:.1f}us", seconds(call.start_ns, call.end_ns) * 1e6);
}

constexpr const char* kColumns =
    "{:>8} {:>8} {:<7} {:<15} {:<10} {:<5} {:>5} {:>12} {:<20} {:>10}"
    " {:>10}{}";

std::string escaped(const std::string& text) {
  std::string json;
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json;
}

void add_exchanges(std::string& json, const CallRecord& call) {
  const char* separator = R"(,"exchanges":[)";
  for (const ExchangeRecord& exchange : call.exchanges) {
    fmt::format_to(std::back_inserter(json),
                   R"({}{{"rank":{},"direction":"{}","number":{},"type":"{}","bytes":{},)"
                   R"("moved":{},"messages":{},"complete":{},"peer_state":"{}",)"
                   R"("peer_call":{},"peer_blames":{}}})",
                   separator, exchange.peer, exchange.sends ? "to" : "from", exchange.number,
                   escaped(exchange.type), exchange.bytes, exchange.moved, exchange.messages,
                   exchange.complete, json_name_of(exchange.state), exchange.call, exchange.blame);
    separator = ",";
  }
  if (!call.exchanges.empty()) json += ']';
  if (call.left_out > 0) {
    fmt::format_to(std::back_inserter(json), R"(,"exchanges_left_out":{})", call.left_out);
  }
}

void add_messages(std::string& json, const CallRecord& call) {
  const char* separator = R"(,"messages":[)";
  for (const MessageRecord& message : call.messages) {
    fmt::format_to(std::back_inserter(json),
                   R"({}{{"rank":{},"direction":"{}","lane":{},"slice":{},"bytes":{},)"
                   R"("begin_ns":{},"end_ns":{}}})",
                   separator, message.peer, message.sends ? "to" : "from", message.lane,
                   message.slice, message.bytes, message.begin_ns, message.end_ns);
    separator = ",";
  }
  if (!call.messages.empty()) json += ']';
}

void add_call(std::string& json, const CallRecord& call) {
  fmt::format_to(std::back_inserter(json),
                 R"({{"order":{},"series":"{}","call":{},"state":"{}","collective":"{}",)"
                 R"("type":"{}","op":"{}",)"
                 R"("root":{},"bytes":{},"algorithm":"{}","start_ns":{},"end_ns":{})",
                 call.order, json_name_of(call.series), call.number, name_of(call.state),
                 escaped(call.collective), escaped(call.type), escaped(call.op), call.root,
                 call.bytes, escaped(call.algorithm), call.start_ns, call.end_ns);
  if (call.waits_for >= 0) {
    fmt::format_to(std::back_inserter(json),
                   R"(,"waits_for":{{"rank":{},"lane":{},"step":{},"since_ns":{}}})",
                   call.waits_for, call.lane, call.step, call.wait_ns);
  }
  add_exchanges(json, call);
  add_messages(json, call);
  json += '}';
}

bool is_complete(const ExchangeRecord& exchange) { return exchange.complete >= exchange.messages; }

/// Messages that are not complete.
uint32_t missing(const ExchangeRecord* exchange) {
  return is_complete(*exchange) ? 0 : exchange->messages - exchange->complete;
}

std::string situation_of(const ExchangeRecord& exchange) {
  switch (exchange.state) {
    case PeerState::kUnknown:
      return "";
    case PeerState::kElsewhere:
      return exchange.call == 0 ? "; it has entered no call yet"
                                : fmt::format("; the last call it entered is {}", exchange.call);
    case PeerState::kWaits:
      return fmt::format("; in call {} it waits for rank {}", exchange.call, exchange.blame);
    case PeerState::kGaveUp:
      return fmt::format("; in call {} it gave up because of rank {}", exchange.call,
                         exchange.blame);
  }
  return "";
}

std::string to_line(const ExchangeRecord& exchange) {
  std::string line = exchange.sends ? "to" : "from";
  if (exchange.number > 0) {
    line = fmt::format("{} {} {}", exchange.sends ? "send" : "recv", exchange.number, line);
  }
  line += fmt::format(" rank {}: ", exchange.peer);
  line += is_complete(exchange) ? fmt::format("all {} bytes", exchange.bytes)
                                : fmt::format("{} of {} bytes", exchange.moved, exchange.bytes);
  if (exchange.messages > 1 && !is_complete(exchange)) {
    line += fmt::format(" ({} of {} messages)", exchange.complete, exchange.messages);
  }
  if (!exchange.type.empty()) line += ", " + exchange.type;
  return line + situation_of(exchange);
}

/// "2026-11-26 12:34:56 UTC"
std::string date_text(uint64_t wall_s) {
  const auto time = static_cast<std::time_t>(wall_s);
  tm utc{};
  char text[64] = "?";
  if (gmtime_r(&time, &utc) != nullptr) std::strftime(text, sizeof text, "%F %T UTC", &utc);
  return text;
}

}  // namespace

std::vector<std::string> to_lines(const CallRecord& call, size_t most) {
  std::vector<const ExchangeRecord*> exchanges;
  for (const ExchangeRecord& exchange : call.exchanges) exchanges.push_back(&exchange);
  std::ranges::stable_sort(exchanges, std::ranges::greater(), missing);
  std::vector<std::string> lines;
  for (const ExchangeRecord* exchange : exchanges) {
    if (lines.size() < most) lines.push_back(to_line(*exchange));
  }
  const size_t more = call.exchanges.size() - lines.size() + call.left_out;
  if (more > 0) lines.push_back(fmt::format("and {} more", more));
  return lines;
}

std::vector<std::string> to_message_lines(const CallRecord& call, size_t most) {
  std::vector<std::string> lines;
  for (const MessageRecord& message : call.messages) {
    if (lines.size() == most) {
      lines.push_back(fmt::format("and {} more messages", call.messages.size() - most));
      break;
    }
    const auto since_first = [&](uint64_t at_ns) {
      return seconds(call.messages.front().begin_ns, at_ns) * 1e6;
    };
    std::string line =
        fmt::format("lane {}, slice {}, {} rank {}: {} bytes, {} {:.1f}us, ", message.lane,
                    message.slice, message.sends ? "to" : "from", message.peer, message.bytes,
                    message.sends ? "copied by" : "awaited from", since_first(message.begin_ns));
    line += message.end_ns == 0 ? std::string(message.sends ? "not sent" : "not received")
                                : fmt::format("{} by {:.1f}us", message.sends ? "sent" : "received",
                                              since_first(message.end_ns));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string to_line(const CallRecord& call, uint64_t now_ns) {
  const std::string start =
      call.start_ns == 0 ? "-" : fmt::format("{:.6f}", seconds(now_ns, call.start_ns));
  std::string wait;
  if (call.waits_for >= 0) {
    const bool over = call.state != RecordState::kRunning;
    wait = fmt::format("  {} rank {} (lane {}, step {})", over ? "waited for" : "waits for",
                       call.waits_for, call.lane, call.step);
    if (!over) wait += fmt::format(" since {:.3f} s", seconds(call.wait_ns, now_ns));
  }
  return fmt::format(kColumns, call.order, name_of(call.series, call.number), name_of(call.state),
                     call.collective, or_dash(call.type), or_dash(call.op), or_dash(call.root, -1),
                     call.bytes, or_dash(call.algorithm), start, duration(call), wait);
}

std::string last_call_text(const Snapshot& snapshot, uint64_t now_ns) {
  if (snapshot.calls.empty()) return "";
  const CallRecord& call = snapshot.calls.back();
  if (call.state != RecordState::kFailed && call.state != RecordState::kRunning) return "";
  std::string text =
      fmt::format("in {}, call {}", call.collective, name_of(call.series, call.number));
  if (call.waits_for >= 0) {
    const double waited_s = seconds(call.wait_ns, call.end_ns != 0 ? call.end_ns : now_ns);
    text += fmt::format(", after it had waited {:.1f} s for rank {}", waited_s, call.waits_for);
  }
  return text;
}

std::string to_text(const Snapshot& snapshot, uint64_t now_ns) {
  const FailureRecord& failure = snapshot.failure;
  if (failure.at_ns != 0) now_ns = failure.at_ns;
  std::string text =
      fmt::format("communicator {:#x}, epoch {}: rank {} of {}, process {} on {}; {} calls\n",
                  snapshot.communicator, snapshot.epoch, snapshot.rank, snapshot.ranks,
                  snapshot.process, snapshot.host, snapshot.calls.size());
  if (failure.at_ns != 0) {
    text += fmt::format("  failed at {}: {}\n", date_text(failure.wall_s), failure.reason);
  }
  if (snapshot.missed > 0) {
    text += fmt::format("  {} queued calls found no room (TUTTI_TRACE_RECORDS)\n", snapshot.missed);
  }
  text += fmt::format(kColumns, "order", "call", "state", "collective", "type", "op", "root",
                      "bytes", "algorithm", "start[s]", "took", "\n");
  for (const CallRecord& call : snapshot.calls) {
    text += to_line(call, now_ns) + "\n";
    for (const std::string& line : to_lines(call, kShownExchanges)) {
      text += fmt::format("{:>{}}{}\n", "", kIndent, line);
    }
    for (const std::string& line : to_message_lines(call, kShownMessages)) {
      text += fmt::format("{:>{}}{}\n", "", kIndent, line);
    }
  }
  return text;
}

std::string to_json(const std::vector<Snapshot>& snapshots) {
  std::string json = "[";
  for (const Snapshot& snapshot : snapshots) {
    if (json.size() > 1) json += ",\n";
    fmt::format_to(std::back_inserter(json),
                   R"({{"communicator":"{:#x}","epoch":{},"rank":{},"ranks":{},"process":{},)"
                   R"("host":"{}","missed":{},)",
                   snapshot.communicator, snapshot.epoch, snapshot.rank, snapshot.ranks,
                   snapshot.process, escaped(snapshot.host), snapshot.missed);
    if (snapshot.failure.at_ns != 0) {
      fmt::format_to(
          std::back_inserter(json), R"("failure":{{"reason":"{}","at_ns":{},"unix_time":{}}},)",
          escaped(snapshot.failure.reason), snapshot.failure.at_ns, snapshot.failure.wall_s);
    }
    json += R"("calls":[)";
    for (size_t i = 0; i < snapshot.calls.size(); ++i) {
      json += i == 0 ? "\n" : ",\n";
      add_call(json, snapshot.calls[i]);
    }
    json += "]}";
  }
  return json + "]\n";
}

}  // namespace tutti::trace
