#include "src/select/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/topology/hash.h"
#include "src/topology/json_value.h"
#include "src/topology/text_file.h"

namespace tutti::select {
namespace {

using topology::JsonValue;

constexpr int kModelFormat = 1;
constexpr size_t kMostLevels = 32;
constexpr size_t kMostCrowds = 32, kMostCopies = 16;
constexpr size_t kMostVendorTimes = 256, kMostVendorCalls = 32;

struct CostField {
  std::string_view name;
  double RankCosts::*member;
};
constexpr CostField kCosts[] = {{"signal_latency_ns", &RankCosts::signal_latency_ns},
                                {"signal_ns", &RankCosts::signal_ns},
                                {"copy_ns_per_byte", &RankCosts::copy_ns_per_byte},
                                {"turn_ns", &RankCosts::turn_ns},
                                {"stream_latency_ns", &RankCosts::stream_latency_ns},
                                {"message_ns", &RankCosts::message_ns},
                                {"stream_ns_per_byte", &RankCosts::stream_ns_per_byte},
                                {"network_latency_ns", &RankCosts::network_latency_ns}};

struct DeviceField {
  std::string_view name;
  double DeviceCosts::*member;
};
constexpr DeviceField kDevices[] = {{"own_call_us", &DeviceCosts::own_call_us},
                                    {"copy_call_us", &DeviceCosts::copy_call_us},
                                    {"list_call_us", &DeviceCosts::list_call_us},
                                    {"listed_copy_us", &DeviceCosts::listed_copy_us},
                                    {"group_call_us", &DeviceCosts::group_call_us},
                                    {"kernel_call_us", &DeviceCosts::kernel_call_us},
                                    {"event_us", &DeviceCosts::event_us},
                                    {"graph_launch_us", &DeviceCosts::graph_launch_us},
                                    {"wait_us", &DeviceCosts::wait_us},
                                    {"write_us", &DeviceCosts::write_us},
                                    {"copy_us", &DeviceCosts::copy_us},
                                    {"kernel_us", &DeviceCosts::kernel_us},
                                    {"host_function_us", &DeviceCosts::host_function_us},
                                    {"hand_over_us", &DeviceCosts::hand_over_us},
                                    {"local_us_per_mb", &DeviceCosts::local_us_per_mb},
                                    {"link_us_per_mb", &DeviceCosts::link_us_per_mb},
                                    {"bus_us_per_mb", &DeviceCosts::bus_us_per_mb},
                                    {"nodes_us_per_mb", &DeviceCosts::nodes_us_per_mb},
                                    {"fetch_us_per_mb", &DeviceCosts::fetch_us_per_mb},
                                    {"multicast_us_per_mb", &DeviceCosts::multicast_us_per_mb},
                                    {"line_us", &DeviceCosts::line_us},
                                    {"line_us_per_mb", &DeviceCosts::line_us_per_mb}};

Status refuse(const JsonValue& at, const std::string& why) {
  return Status::invalid_argument("line " + std::to_string(at.line) + ": " + why);
}

Status check_type(const JsonValue& value, JsonValue::Type type) {
  if (value.type == type) return {};
  return refuse(value, "'" + value.key + "' is " + std::string(topology::describe(value.type)) +
                           ", not " + std::string(topology::describe(type)));
}

Status take_number(const JsonValue& value, double& number) {
  if (Status status = check_type(value, JsonValue::Type::kNumber); !status.ok()) return status;
  constexpr double kMost = 1e15;  // no time of a message is longer
  if (!(value.number >= 0 && value.number <= kMost)) {
    return refuse(value, "'" + value.key + "' is not from 0 to 1e15");
  }
  number = value.number;
  return {};
}

Status take_costs(const JsonValue& value, RankCosts& costs) {
  if (Status status = check_type(value, JsonValue::Type::kObject); !status.ok()) return status;
  for (const JsonValue& field : value.items) {
    const auto known = std::find_if(std::begin(kCosts), std::end(kCosts),
                                    [&](const CostField& one) { return one.name == field.key; });
    if (known == std::end(kCosts)) return refuse(field, "'ranks' has no '" + field.key + "'");
    if (Status status = take_number(field, costs.*(known->member)); !status.ok()) return status;
  }
  return {};
}

Status take_term(const JsonValue& value, DeviceCosts& costs) {
  if (value.type != JsonValue::Type::kObject) return refuse(value, "a term is no object");
  const JsonValue *name = value.find("name"), *number = value.find("value");
  if (name == nullptr || number == nullptr) return refuse(value, "a term has a name and a value");
  for (const JsonValue& field : value.items) {
    const bool is_text = field.key == "name" || field.key == "source" || field.key == "what";
    if (!is_text && field.key != "value") return refuse(field, "a term has no '" + field.key + "'");
    if (!is_text) continue;
    if (Status s = check_type(field, JsonValue::Type::kString); !s.ok()) return s;
  }
  const auto known = std::find_if(std::begin(kDevices), std::end(kDevices),
                                  [&](const DeviceField& one) { return one.name == name->text; });
  if (known == std::end(kDevices)) return refuse(*name, "there is no term '" + name->text + "'");
  return take_number(*number, costs.*(known->member));
}

Status take_devices(const JsonValue& value, DeviceCosts& costs) {
  if (Status status = check_type(value, JsonValue::Type::kObject); !status.ok()) return status;
  for (const JsonValue& field : value.items) {
    if (field.key == "name") {
      if (Status s = check_type(field, JsonValue::Type::kString); !s.ok()) return s;
    } else if (field.key == "terms") {
      if (Status s = check_type(field, JsonValue::Type::kArray); !s.ok()) return s;
      for (const JsonValue& term : field.items) {
        if (Status s = take_term(term, costs); !s.ok()) return s;
      }
    } else {
      return refuse(field, "'devices' has no '" + field.key + "'");
    }
  }
  return {};
}

Status take_level(const JsonValue& value, LevelRates& rates) {
  if (value.type != JsonValue::Type::kObject) return refuse(value, "a level is no object");
  for (const JsonValue& field : value.items) {
    Status status;
    if (field.key == "name") {
      status = check_type(field, JsonValue::Type::kString);
      rates.name = field.text;
    } else if (field.key == "latency_ns") {
      status = take_number(field, rates.latency_ns);
    } else if (field.key == "ns_per_byte") {
      status = take_number(field, rates.ns_per_byte);
    } else {
      status = refuse(field, "a level has no '" + field.key + "'");
    }
    if (!status.ok()) return status;
  }
  return rates.name.empty() ? refuse(value, "a level without a name") : Status();
}

Status take_levels(const JsonValue& value, std::vector<LevelRates>& levels) {
  if (Status status = check_type(value, JsonValue::Type::kArray); !status.ok()) return status;
  if (value.items.size() > kMostLevels) return refuse(value, "more than 32 levels");
  for (const JsonValue& item : value.items) {
    LevelRates rates;
    if (Status status = take_level(item, rates); !status.ok()) return status;
    for (const LevelRates& other : levels) {
      if (other.name == rates.name) return refuse(item, "two levels '" + rates.name + "'");
    }
    levels.push_back(std::move(rates));
  }
  return {};
}

Status take_copies(const JsonValue& value, std::vector<CopyTimes>& copies) {
  if (Status status = check_type(value, JsonValue::Type::kArray); !status.ok()) return status;
  if (value.items.size() > kMostCopies) return refuse(value, "more than 16 copies");
  for (const JsonValue& item : value.items) {
    if (item.type != JsonValue::Type::kObject) return refuse(item, "a copy is no object");
    CopyTimes times;
    for (const JsonValue& field : item.items) {
      double* const number = field.key == "bytes"       ? &times.bytes
                             : field.key == "staged_ns" ? &times.staged_ns
                             : field.key == "single_ns" ? &times.single_ns
                                                        : nullptr;
      if (number == nullptr) return refuse(field, "a copy has no '" + field.key + "'");
      if (Status status = take_number(field, *number); !status.ok()) return status;
    }
    if (times.bytes < 1 || times.staged_ns <= 0) {
      return refuse(item, "a copy has 'bytes' and 'staged_ns' above 0");
    }
    if (!copies.empty() && times.bytes <= copies.back().bytes) {
      return refuse(item, "the bytes of copies rise");
    }
    copies.push_back(times);
  }
  return {};
}

Status take_crowd(const JsonValue& value, CrowdTimes& crowd) {
  if (value.type != JsonValue::Type::kObject) return refuse(value, "a crowd is no object");
  double ranks = 0, cores = 0;
  for (const JsonValue& field : value.items) {
    Status status;
    if (field.key == "copies") {
      status = take_copies(field, crowd.copies);
    } else {
      double* const number = field.key == "ranks"        ? &ranks
                             : field.key == "cores"      ? &cores
                             : field.key == "step_ns"    ? &crowd.step_ns
                             : field.key == "one_way_ns" ? &crowd.one_way_ns
                                                         : nullptr;
      if (number == nullptr) return refuse(field, "a crowd has no '" + field.key + "'");
      status = take_number(field, *number);
    }
    if (!status.ok()) return status;
  }
  constexpr double kMost = 1 << 20;
  const auto is_number = [](double one) {
    return one >= 1 && one <= kMost && one == std::floor(one);
  };
  if (!is_number(ranks) || !is_number(cores) || ranks < 2) {
    return refuse(value, "a crowd has 'ranks', from 2 on, and 'cores'");
  }
  crowd.ranks = static_cast<int>(ranks);
  crowd.cores = static_cast<int>(cores);
  return {};
}

Status take_crowds(const JsonValue& value, Model& model) {
  if (Status status = check_type(value, JsonValue::Type::kArray); !status.ok()) return status;
  if (value.items.size() > kMostCrowds) return refuse(value, "more than 32 crowds");
  for (const JsonValue& item : value.items) {
    CrowdTimes crowd;
    if (Status status = take_crowd(item, crowd); !status.ok()) return status;
    if (model.crowd_of(crowd.ranks, crowd.cores) != nullptr) {
      return refuse(item, "two crowds of as many ranks on as many cores");
    }
    model.crowds.push_back(std::move(crowd));
  }
  return {};
}

Status take_vendor_calls(const JsonValue& value, std::vector<VendorCall>& calls) {
  if (Status status = check_type(value, JsonValue::Type::kArray); !status.ok()) return status;
  if (value.items.size() > kMostVendorCalls) return refuse(value, "more than 32 calls");
  for (const JsonValue& item : value.items) {
    if (item.type != JsonValue::Type::kObject) return refuse(item, "a call is no object");
    VendorCall call;
    for (const JsonValue& field : item.items) {
      double* const number = field.key == "bytes" ? &call.bytes
                             : field.key == "ns"  ? &call.ns
                                                  : nullptr;
      if (number == nullptr) return refuse(field, "a call has no '" + field.key + "'");
      if (Status status = take_number(field, *number); !status.ok()) return status;
    }
    if (call.bytes < 1 || call.ns <= 0) return refuse(item, "a call has 'bytes' and 'ns' above 0");
    if (!calls.empty() && call.bytes <= calls.back().bytes) {
      return refuse(item, "the bytes of calls rise");
    }
    calls.push_back(call);
  }
  return calls.empty() ? refuse(value, "no calls") : Status();
}

Status take_vendor(const JsonValue& value, std::vector<VendorTimes>& vendor) {
  if (Status status = check_type(value, JsonValue::Type::kArray); !status.ok()) return status;
  if (value.items.size() > kMostVendorTimes) return refuse(value, "more than 256 kinds of calls");
  for (const JsonValue& item : value.items) {
    if (item.type != JsonValue::Type::kObject) return refuse(item, "times are no object");
    VendorTimes times;
    double ranks = 0;
    for (const JsonValue& field : item.items) {
      Status status;
      if (field.key == "collective") {
        status = check_type(field, JsonValue::Type::kString);
        times.collective = field.text;
      } else if (field.key == "ranks") {
        status = take_number(field, ranks);
      } else if (field.key == "calls") {
        status = take_vendor_calls(field, times.calls);
      } else {
        status = refuse(field, "times of NCCL have no '" + field.key + "'");
      }
      if (!status.ok()) return status;
    }
    constexpr double kMost = 1 << 20;
    if (times.collective.empty() || times.calls.empty() || ranks < 2 || ranks > kMost) {
      return refuse(item, "times of NCCL have 'collective', 'ranks', from 2 on, and 'calls'");
    }
    times.ranks = static_cast<int>(ranks);
    vendor.push_back(std::move(times));
  }
  return {};
}

Result<ModelFile> model_of(const JsonValue& file) {
  const JsonValue* format = file.find("tutti_model");
  if (format == nullptr || format->number != kModelFormat) {
    return refuse(file, "this is no model of format " + std::to_string(kModelFormat));
  }
  ModelFile made;
  for (const JsonValue& field : file.items) {
    Status status;
    if (field.key == "hosts") {
      status = check_type(field, JsonValue::Type::kString);
      made.hosts = field.text;
    } else if (field.key == "ranks") {
      status = take_costs(field, made.model.costs);
    } else if (field.key == "devices") {
      status = take_devices(field, made.model.devices);
    } else if (field.key == "nccl") {
      status = take_vendor(field, made.model.vendor);
    } else if (field.key == "levels") {
      status = take_levels(field, made.model.levels);
    } else if (field.key == "crowds") {
      status = take_crowds(field, made.model);
    } else if (field.key != "tutti_model") {
      status = refuse(field, "there is no field '" + field.key + "'");
    }
    if (!status.ok()) return status;
  }
  return made;
}

// A number that is read again as the same one.
std::string number_text(double number) { return fmt::format("{}", number); }

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (static_cast<unsigned char>(letter) >= ' ') result += letter;
  }
  return result + "\"";
}

std::string text_of(const CrowdTimes& crowd) {
  std::string copies;
  for (const CopyTimes& times : crowd.copies) {
    copies += (copies.empty() ? "" : ",\n     ") + ("{\"bytes\": " + number_text(times.bytes)) +
              ", \"staged_ns\": " + number_text(times.staged_ns) +
              ", \"single_ns\": " + number_text(times.single_ns) + "}";
  }
  return "{\"ranks\": " + std::to_string(crowd.ranks) +
         ", \"cores\": " + std::to_string(crowd.cores) +
         ", \"step_ns\": " + number_text(crowd.step_ns) +
         ", \"one_way_ns\": " + number_text(crowd.one_way_ns) + ",\n    \"copies\": [" + copies +
         "]}";
}

std::string text_of(const VendorTimes& times) {
  std::string calls;
  for (const VendorCall& call : times.calls) {
    calls += (calls.empty() ? "" : ", ") + ("{\"bytes\": " + number_text(call.bytes)) +
             ", \"ns\": " + number_text(call.ns) + "}";
  }
  return "{\"collective\": " + quoted(times.collective) +
         ", \"ranks\": " + std::to_string(times.ranks) + ",\n    \"calls\": [" + calls + "]}";
}

}  // namespace

Result<ModelFile> parse_model(std::string_view text, const std::string& file) {
  const Result<JsonValue> parsed = topology::parse_json(text);
  if (!parsed.ok()) return topology::in_file(parsed.status(), file);
  Result<ModelFile> model = model_of(parsed.value());
  if (!model.ok()) return topology::in_file(model.status(), file);
  return model;
}

std::string write_model(const ModelFile& file) {
  std::string text = "{\"tutti_model\": " + std::to_string(kModelFormat);
  if (!file.hosts.empty()) text += ",\n \"hosts\": " + quoted(file.hosts);
  std::string costs;
  for (const CostField& field : kCosts) {
    const double value = file.model.costs.*(field.member);
    if (value == RankCosts().*(field.member)) continue;
    costs += (costs.empty() ? "" : ", ") + quoted(field.name) + ": " + number_text(value);
  }
  if (!costs.empty()) text += ",\n \"ranks\": {" + costs + "}";
  std::string levels;
  for (const LevelRates& level : file.model.levels) {
    levels += (levels.empty() ? "" : ",\n   ") + ("{\"name\": " + quoted(level.name)) +
              ", \"latency_ns\": " + number_text(level.latency_ns) +
              ", \"ns_per_byte\": " + number_text(level.ns_per_byte) + "}";
  }
  if (!levels.empty()) text += ",\n \"levels\": [" + levels + "]";
  std::string crowds;
  for (const CrowdTimes& crowd : file.model.crowds) {
    crowds += (crowds.empty() ? "" : ",\n   ") + text_of(crowd);
  }
  if (!crowds.empty()) text += ",\n \"crowds\": [" + crowds + "]";
  std::string terms;
  for (const DeviceField& field : kDevices) {
    const double value = file.model.devices.*(field.member);
    if (value == DeviceCosts().*(field.member)) continue;
    terms += (terms.empty() ? "" : ",\n   ") + ("{\"name\": " + quoted(field.name)) +
             ", \"value\": " + number_text(value) + "}";
  }
  if (!terms.empty()) text += ",\n \"devices\": {\"terms\": [" + terms + "]}";
  std::string vendor;
  for (const VendorTimes& times : file.model.vendor) {
    vendor += (vendor.empty() ? "" : ",\n   ") + text_of(times);
  }
  if (!vendor.empty()) text += ",\n \"nccl\": [" + vendor + "]";
  return text + "}\n";
}

uint32_t version_of(const Model& model) {
  std::string text;
  for (const CostField& field : kCosts) text += number_text(model.costs.*(field.member)) + " ";
  for (const LevelRates& level : model.levels) {
    text += level.name + "\n" + number_text(level.latency_ns) + " " +
            number_text(level.ns_per_byte) + " ";
  }
  for (const CrowdTimes& crowd : model.crowds) text += text_of(crowd) + "\n";
  for (const DeviceField& field : kDevices) {
    text += number_text(model.devices.*(field.member)) + " ";
  }
  for (const VendorTimes& times : model.vendor) text += text_of(times) + "\n";
  const uint64_t hash = topology::fnv1a(text);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

std::string name_of_hosts(std::vector<std::string> hosts) {
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return fmt::format("{}-{:016x}", hosts.size(),
                     topology::fnv1a(fmt::format("{}", fmt::join(hosts, "\n"))));
}

}  // namespace tutti::select
