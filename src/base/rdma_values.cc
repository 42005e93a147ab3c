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

}  // namespace

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

}  // namespace tutti
