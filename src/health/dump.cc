#include "src/health/dump.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "src/base/words.h"
#include "src/health/pickle.h"
#include "src/topology/text_file.h"
#include "src/trace/record_file.h"

namespace tutti::health {
namespace {

using topology::JsonValue;
using trace::CallRecord;
using trace::RecordState;
using trace::Series;

double number_of(const JsonValue& object, std::string_view field, double otherwise = 0) {
  const JsonValue* value = object.find(field);
  return value != nullptr && value->type == JsonValue::Type::kNumber ? value->number : otherwise;
}

uint64_t count_of(const JsonValue& object, std::string_view field) {
  const double value = number_of(object, field);
  return value > 0 && value < 9.0e18 ? static_cast<uint64_t>(value) : 0;
}

int rank_of(const JsonValue& object, std::string_view field, int otherwise = -1) {
  const double value = number_of(object, field, otherwise);
  return value >= -1 && value < 1 << 30 ? static_cast<int>(value) : otherwise;
}

std::string text_of(const JsonValue& object, std::string_view field) {
  const JsonValue* value = object.find(field);
  std::string text = value != nullptr ? value->text : std::string();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

template <class Value>
Value one_of(const std::string& text, const std::map<std::string, Value>& known, Value otherwise) {
  const auto found = known.find(text);
  return found == known.end() ? otherwise : found->second;
}

RecordState state_of(const std::string& text) {
  return one_of<RecordState>(text,
                             {{"queued", RecordState::kQueued},
                              {"running", RecordState::kRunning},
                              {"done", RecordState::kDone},
                              {"failed", RecordState::kFailed},
                              {"scheduled", RecordState::kRunning},
                              {"started", RecordState::kRunning},
                              {"completed", RecordState::kDone}},
                             RecordState::kNone);
}

// ---- `tutti trace dump --json`

CallRecord call_of_trace(const JsonValue& from) {
  CallRecord call;
  call.order = count_of(from, "order");
  call.series = one_of<Series>(text_of(from, "series"),
                               {{"point_to_point", Series::kTransfers},
                                {"one_sided", Series::kOneSided},
                                {"device", Series::kDevice}},
                               Series::kCollective);
  call.number = static_cast<uint32_t>(count_of(from, "call"));
  call.state = state_of(text_of(from, "state"));
  call.collective = text_of(from, "collective");
  call.type = text_of(from, "type");
  call.op = text_of(from, "op");
  call.algorithm = text_of(from, "algorithm");
  call.root = rank_of(from, "root");
  call.bytes = count_of(from, "bytes");
  call.start_ns = count_of(from, "start_ns");
  call.end_ns = count_of(from, "end_ns");
  if (const JsonValue* wait = from.find("waits_for")) {
    call.waits_for = rank_of(*wait, "rank");
    call.wait_ns = count_of(*wait, "since_ns");
  }
  const JsonValue* exchanges = from.find("exchanges");
  for (size_t i = 0; exchanges != nullptr && i < exchanges->items.size(); ++i) {
    const JsonValue& one = exchanges->items[i];
    trace::ExchangeRecord exchange;
    exchange.peer = static_cast<uint32_t>(std::max(0, rank_of(one, "rank")));
    exchange.sends = text_of(one, "direction") == "to";
    exchange.bytes = count_of(one, "bytes");
    exchange.moved = count_of(one, "moved");
    exchange.messages = static_cast<uint32_t>(count_of(one, "messages"));
    exchange.complete = static_cast<uint32_t>(count_of(one, "complete"));
    call.exchanges.push_back(std::move(exchange));
  }
  return call;
}

// ---- PyTorch

/// The members of a process group, by their place in it.
std::vector<int> members_of(const JsonValue& dump, const std::string& group) {
  std::vector<int> members;
  const JsonValue* groups = dump.find("pg_config");
  const JsonValue* config = groups != nullptr ? groups->find(group) : nullptr;
  const JsonValue* ranks = config != nullptr ? config->find("ranks") : nullptr;
  if (ranks == nullptr) return members;
  for (const JsonValue& rank : ranks->items) members.push_back(static_cast<int>(rank.number));
  // As a text: "[0, 1, 2]".
  const std::string_view text = ranks->text;
  for (const std::string_view word :
       split(text.size() > 2 ? text.substr(1, text.size() - 2) : std::string_view(), ',')) {
    if (const auto rank = parse_integer<int>(trim(word))) members.push_back(*rank);
  }
  return members;
}

uint64_t bytes_of_sizes(const JsonValue& entry) {
  constexpr uint64_t kMost = uint64_t{1} << 50;
  const std::map<std::string, uint64_t> widths = {{"Double", 8},   {"Long", 8}, {"Half", 2},
                                                  {"BFloat16", 2}, {"Byte", 1}, {"Char", 1},
                                                  {"Bool", 1},     {"Short", 2}};
  const JsonValue *sizes = entry.find("input_sizes"), *types = entry.find("input_dtypes");
  uint64_t bytes = 0;
  for (size_t i = 0; sizes != nullptr && i < sizes->items.size(); ++i) {
    const bool typed = types != nullptr && i < types->items.size();
    uint64_t all = one_of<uint64_t>(typed ? types->items[i].text : "", widths, 4);
    for (const JsonValue& size : sizes->items[i].items) {
      const double next = static_cast<double>(all) * size.number;
      all = next >= 0 && next < static_cast<double>(kMost) ? static_cast<uint64_t>(next) : kMost;
    }
    bytes += all;
  }
  return bytes;
}

// "nccl:all_reduce", "nccl:recv 3<-1": what it is called, and of a transfer the peer in the group.
void take_name(const std::string& name, CallRecord& call) {
  std::string_view rest = name;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    rest.remove_prefix(colon + 1);
  }
  const size_t space = rest.find(' ');
  call.collective = rest.substr(0, space);
  if (space == std::string_view::npos) return;
  const std::string_view ends = rest.substr(space + 1);
  const size_t arrow = std::min(ends.find("<-"), ends.find("->"));
  if (arrow == std::string_view::npos) return;
  const auto peer = parse_integer<uint32_t>(trim(ends.substr(arrow + 2)));
  if (!peer) return;
  call.root = static_cast<int>(*peer);
  trace::ExchangeRecord exchange;
  exchange.peer = *peer;
  exchange.sends = ends.substr(arrow, 2) == "->";
  call.exchanges.push_back(exchange);
}

CallRecord call_of_pytorch(const JsonValue& entry) {
  CallRecord call;
  const JsonValue* pair = entry.find("is_p2p");
  const bool is_pair = pair != nullptr && pair->number != 0;
  call.series = is_pair ? Series::kTransfers : Series::kCollective;
  call.order = count_of(entry, "record_id");
  call.number =
      static_cast<uint32_t>(count_of(entry, is_pair ? "p2p_seq_id" : "collective_seq_id"));
  call.state = state_of(text_of(entry, "state"));
  take_name(text_of(entry, "profiling_name"), call);
  const JsonValue* types = entry.find("input_dtypes");
  if (types != nullptr && !types->items.empty()) call.type = types->items.front().text;
  call.bytes = bytes_of_sizes(entry);
  call.start_ns = count_of(entry, "time_discovered_started_ns");
  if (call.start_ns == 0) call.start_ns = count_of(entry, "time_created_ns");
  call.end_ns = count_of(entry, "time_discovered_completed_ns");
  // Where the device's clock has timed it, that is the better duration.
  const double duration = number_of(entry, "duration_ms");
  if (call.end_ns > 0 && duration > 0 && duration < 1e12) {
    call.end_ns = call.start_ns + static_cast<uint64_t>(duration * 1e6);
  }
  return call;
}

std::string group_of(const JsonValue& entry) {
  const JsonValue* group = entry.find("process_group");
  if (group != nullptr && !group->items.empty()) return group->items.front().text;
  return std::to_string(count_of(entry, "pg_id"));
}

int rank_in_name(const std::string& file) {
  size_t digits = file.size();
  while (digits > 0 && file[digits - 1] >= '0' && file[digits - 1] <= '9') --digits;
  return parse_integer<int>(std::string_view(file).substr(digits)).value_or(-1);
}

std::string without_ending(const std::string& file) {
  for (const std::string_view ending : {".json", ".pkl", ".pickle"}) {
    if (file.ends_with(ending)) return file.substr(0, file.size() - ending.size());
  }
  return file;
}

}  // namespace

Result<std::vector<RankRecorder>> recorders_of_trace(const JsonValue& dump) {
  if (dump.type != JsonValue::Type::kArray) {
    return Status::invalid_argument("this is no output of 'tutti trace dump --json'");
  }
  std::vector<RankRecorder> recorders;
  for (const JsonValue& from : dump.items) {
    RankRecorder one;
    const std::string communicator = text_of(from, "communicator");
    const auto number = communicator.starts_with("0x")
                            ? parse_integer<uint64_t>(communicator.substr(2), 16)
                            : std::nullopt;
    if (!number) return Status::invalid_argument("a recorder names no communicator");
    one.snapshot.communicator = *number;
    one.snapshot.epoch = static_cast<uint32_t>(count_of(from, "epoch"));
    one.snapshot.rank = rank_of(from, "rank");
    one.snapshot.ranks = rank_of(from, "ranks");
    one.snapshot.process = count_of(from, "process");
    one.snapshot.host = text_of(from, "host");
    if (const JsonValue* failure = from.find("failure")) {
      one.snapshot.failure = {text_of(*failure, "reason"), count_of(*failure, "at_ns"),
                              count_of(*failure, "unix_time")};
    }
    const JsonValue* calls = from.find("calls");
    for (size_t i = 0; calls != nullptr && i < calls->items.size(); ++i) {
      one.snapshot.calls.push_back(call_of_trace(calls->items[i]));
    }
    recorders.push_back(std::move(one));
  }
  return recorders;
}

Result<std::vector<RankRecorder>> recorders_of_pytorch(const JsonValue& dump, int rank) {
  const JsonValue* entries = dump.find("entries");
  if (entries == nullptr || entries->type != JsonValue::Type::kArray ||
      !text_of(dump, "version").starts_with("2.")) {
    return Status::invalid_argument("this is no dump of PyTorch's flight recorder, version 2");
  }
  std::map<std::string, RankRecorder> groups;
  for (const JsonValue& entry : entries->items) {
    const std::string name = group_of(entry);
    RankRecorder& one = groups[name];
    if (one.snapshot.ranks == 0) {
      const std::vector<int> members = members_of(dump, name);
      const auto own = std::find(members.begin(), members.end(), rank);
      if (own == members.end()) {
        return Status::invalid_argument("rank " + std::to_string(rank) +
                                        ", the number at the end of the file's name, is not in "
                                        "process group " +
                                        name + " of the dump");
      }
      one.snapshot.communicator = std::hash<std::string>{}(name);
      one.snapshot.rank = static_cast<int>(own - members.begin());
      one.snapshot.ranks = static_cast<int>(members.size());
    }
    one.snapshot.calls.push_back(call_of_pytorch(entry));
  }
  std::vector<RankRecorder> recorders;
  for (auto& [name, one] : groups) recorders.push_back(std::move(one));
  return recorders;
}

Result<ReadDumps> read_dump(std::string_view content, const std::string& file) {
  ReadDumps found;
  const char first = content.empty() ? '\0' : content[0];
  if (first != '[' && first != '{' && first != '\x80') {
    trace::Recorders read = trace::read_records(content);
    for (trace::Snapshot& one : read.snapshots) found.recorders.push_back({std::move(one), 0});
    for (const Status& status : read.refused) {
      found.refused.push_back(topology::in_file(status, file));
    }
    return found;
  }
  const Result<JsonValue> value =
      first == '\x80' ? read_pickle(content) : topology::parse_json(content);
  if (!value.ok()) return topology::in_file(value.status(), file);
  Result<std::vector<RankRecorder>> recorders =
      first == '[' ? recorders_of_trace(value.value())
                   : recorders_of_pytorch(value.value(), rank_in_name(without_ending(file)));
  if (!recorders.ok()) return topology::in_file(recorders.status(), file);
  found.recorders = std::move(recorders).value();
  return found;
}

}  // namespace tutti::health
