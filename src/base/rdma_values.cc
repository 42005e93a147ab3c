#include "src/base/rdma_values.h"

#include "src/base/setting_values.h"
#include "src/base/words.h"

namespace tutti {
namespace {

constexpr uint32_t kMostOfAByte = 255;

template <class Number>
bool take_number(std::string_view value, uint32_t least, uint32_t most, Number& number) {
  const auto parsed = parse_integer<uint32_t>(value);
  if (!parsed || *parsed < least || *parsed > most) return false;
  number = static_cast<Number>(*parsed);
  return true;
}

bool take_no_rdma(std::string_view value, Config& config) {
  const auto parsed = parse_switch(value);
  if (parsed) config.rdma.allowed = !*parsed;
  return parsed.has_value();
}

bool take_rdma_devices(std::string_view value, Config& config) {
  config.rdma.devices = value;
  return !value.empty() && value.find(' ') == std::string_view::npos;
}

bool take_rdma_gid_index(std::string_view value, Config& config) {
  return take_number(value, 0, kMostOfAByte, config.rdma.gid_index);
}

bool take_rdma_fabric(std::string_view value, Config& config) {
  constexpr size_t kMostBytes = 64;
  config.rdma.fabric = value;
  return is_name(value) && value.size() <= kMostBytes;
}

// 0 would be for ever.
bool take_rdma_timeout(std::string_view value, Config& config) {
  return take_number(value, 1, kMostRdmaTimeout, config.rdma.timeout);
}

bool take_rdma_retries(std::string_view value, Config& config) {
  return take_number(value, 0, kMostRdmaRetries, config.rdma.retries);
}

bool take_rdma_traffic_class(std::string_view value, Config& config) {
  return take_number(value, 0, kMostOfAByte, config.rdma.traffic_class);
}

bool take_rdma_queue_pairs(std::string_view value, Config& config) {
  if (value == "auto") return config.rdma.queue_pairs = 0, true;
  return take_number(value, 1, kMostRdmaQueuePairs, config.rdma.queue_pairs);
}

bool take_rdma_segment_bytes(std::string_view value, Config& config) {
  if (value == "auto") return config.rdma.segment_bytes = 0, true;
  const auto bytes = parse_bytes(value);
  if (!bytes || *bytes < kLeastRdmaSegment || *bytes > kMostRdmaSegment) return false;
  config.rdma.segment_bytes = static_cast<uint32_t>(*bytes);
  return true;
}

bool take_rdma_outstanding_bytes(std::string_view value, Config& config) {
  if (value == "auto") return config.rdma.outstanding_bytes = 0, true;
  const auto bytes = parse_bytes(value);
  if (!bytes || *bytes < kLeastRdmaSegment || *bytes > kMostRdmaOutstanding) return false;
  config.rdma.outstanding_bytes = *bytes;
  return true;
}

bool take_rdma_rails(std::string_view value, Config& config) {
  return take_number(value, 1, kMostRdmaRails, config.rdma.rails);
}

bool take_rdma_adaptive_routing(std::string_view value, Config& config) {
  const auto parsed = parse_switch(value);
  if (parsed) config.rdma.adaptive_routing = *parsed;
  return parsed.has_value();
}

std::string show_given(const std::string& text) { return text.empty() ? "(unset)" : text; }

std::string show_or_auto(uint32_t number) {
  return number == 0 ? std::string("auto") : std::to_string(number);
}

std::string show_bytes_or_auto(uint64_t bytes) {
  return bytes == 0 ? std::string("auto") : show_bytes(bytes);
}

constexpr Setting kRdmaSettings[] = {
    {"TUTTI_NCCL_IB_DISABLE", "NCCL_IB_DISABLE", "", "1/0, true/false, yes/no, on/off",
     "RDMA cards are not used", take_no_rdma,
     [](const Config& c) { return std::string(c.rdma.allowed ? "0" : "1"); }},
    {"TUTTI_RDMA_DEVICES", "NCCL_IB_HCA", "",
     "mlx5_0,mlx5_1:1 (cards, or ports; prefixes), =mlx5_0 (exact), ^mlx5_2 (all but these)",
     "The ports of RDMA cards that may be used; of several a rank uses one that is near to it",
     take_rdma_devices, [](const Config& c) { return show_given(c.rdma.devices); }},
    {"TUTTI_RDMA_GID_INDEX", "NCCL_IB_GID_INDEX", "", "0 to 255",
     "The address of the port that is used, by its index; default: the first of RoCE version 2, "
     "IPv4 before IPv6",
     take_rdma_gid_index,
     [](const Config& c) {
       return c.rdma.gid_index < 0 ? show_given("") : std::to_string(c.rdma.gid_index);
     }},
    {"TUTTI_RDMA_FABRIC", "", "", "at most 64 letters, digits, _ and -",
     "Ranks reach each other by RDMA only where this is equal: for hosts whose cards are not in "
     "one network",
     take_rdma_fabric, [](const Config& c) { return show_given(c.rdma.fabric); }},
    {"TUTTI_RDMA_TIMEOUT", "NCCL_IB_TIMEOUT", "", "1 to 31",
     "An RDMA card repeats what the peer's has not acknowledged after 4.096 us * 2^this",
     take_rdma_timeout, [](const Config& c) { return std::to_string(c.rdma.timeout); }},
    {"TUTTI_RDMA_RETRIES", "NCCL_IB_RETRY_CNT", "", "0 to 6 (7 is for ever with some cards)",
     "So often it does, then the connection has failed", take_rdma_retries,
     [](const Config& c) { return std::to_string(c.rdma.retries); }},
    {"TUTTI_RDMA_TRAFFIC_CLASS", "NCCL_IB_TC", "", "0 to 255",
     "The traffic class of RDMA packets, for networks that keep them apart",
     take_rdma_traffic_class, [](const Config& c) { return std::to_string(c.rdma.traffic_class); }},
    {"TUTTI_RDMA_QUEUE_PAIRS", "NCCL_IB_QPS_PER_CONNECTION", "", "auto, or 1 to 16",
     "So many queue pairs carry the large messages of a link; auto: as round trip and rate ask for",
     take_rdma_queue_pairs, [](const Config& c) { return show_or_auto(c.rdma.queue_pairs); }},
    {"TUTTI_RDMA_SEGMENT_BYTES", "", "", "auto, or 4K to 1M",
     "A large message is cut into pieces of so many bytes, which go to the queue pairs; auto: as "
     "round trip and rate ask for",
     take_rdma_segment_bytes,
     [](const Config& c) { return show_bytes_or_auto(c.rdma.segment_bytes); }},
    {"TUTTI_RDMA_OUTSTANDING_BYTES", "", "", "auto, or 4K to 1G",
     "So many bytes of a link are on the way at once; auto: twice the round trip times the rate",
     take_rdma_outstanding_bytes,
     [](const Config& c) { return show_bytes_or_auto(c.rdma.outstanding_bytes); }},
    {"TUTTI_RDMA_RAILS", "", "", "1 to 4",
     "So many ports of RDMA cards carry a rank's messages together, if there are as many near to "
     "it",
     take_rdma_rails, [](const Config& c) { return std::to_string(c.rdma.rails); }},
    {"TUTTI_RDMA_ADAPTIVE_ROUTING", "NCCL_IB_ADAPTIVE_ROUTING", "",
     "1/0, true/false, yes/no, on/off",
     "Large messages go as plain writes, whose packets InfiniBand switches may send by any way, "
     "and "
     "a note behind them",
     take_rdma_adaptive_routing,
     [](const Config& c) { return std::string(c.rdma.adaptive_routing ? "1" : "0"); }},
};

}  // namespace

std::span<const Setting> rdma_settings() { return kRdmaSettings; }

}  // namespace tutti
