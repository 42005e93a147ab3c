// The fields of JSON objects, read strictly: files that people write are refused with the line and
// what would have been right.
//
// Threads: pure. Errors: kInvalidArgument "line N: why". take_...() leave the value alone where the
// object has no such field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/json_value.h"

namespace tutti::topology {

Status refuse(const JsonValue& at, const std::string& why);
std::string quoted(std::string_view text);
Status expect(const JsonValue& value, JsonValue::Type type, const std::string& what);
/// An object of `what` that has no fields but these.
Status expect_fields(const JsonValue& value, const std::string& what,
                     std::initializer_list<std::string_view> known);

Status take_text(const JsonValue& object, std::string_view key, std::string& text);
/// A number above 0, times `scale`.
Status take_positive(const JsonValue& object, std::string_view key, double scale, double& value);
/// A whole number from 1 to Topology::kMostLeaves.
Status take_number(const JsonValue& object, std::string_view key, uint32_t& value);

}  // namespace tutti::topology
