#include "src/topology/json_fields.h"

#include <algorithm>
#include <vector>

#include "src/base/words.h"
#include "src/topology/topology.h"

namespace tutti::topology {

using Type = JsonValue::Type;

Status refuse(const JsonValue& at, const std::string& why) {
  return Status::invalid_argument("line " + std::to_string(at.line) + ": " + why);
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Status expect(const JsonValue& value, Type type, const std::string& what) {
  if (value.type == type) return {};
  return refuse(value, what + " is " + std::string(describe(value.type)) + ", not " +
                           std::string(describe(type)));
}

Status expect_fields(const JsonValue& value, const std::string& what,
                     std::initializer_list<std::string_view> known) {
  if (Status status = expect(value, Type::kObject, what); !status.ok()) return status;
  for (const JsonValue& field : value.items) {
    if (std::find(known.begin(), known.end(), field.key) != known.end()) continue;
    return refuse(field, what + " has no " + quoted(field.key) + "; did you mean " +
                             quoted(nearest(field.key, std::vector<std::string_view>(known))) +
                             "?");
  }
  return {};
}

Status take_text(const JsonValue& object, std::string_view key, std::string& text) {
  const JsonValue* field = object.find(key);
  if (field == nullptr) return {};
  if (Status status = expect(*field, Type::kString, quoted(key)); !status.ok()) return status;
  text = field->text;
  return {};
}

Status take_positive(const JsonValue& object, std::string_view key, double scale, double& value) {
  const JsonValue* field = object.find(key);
  if (field == nullptr) return {};
  if (Status status = expect(*field, Type::kNumber, quoted(key)); !status.ok()) return status;
  if (!(field->number > 0)) return refuse(*field, quoted(key) + " is not above 0");
  value = field->number * scale;
  return {};
}

Status take_number(const JsonValue& object, std::string_view key, uint32_t& value) {
  const JsonValue* field = object.find(key);
  if (field == nullptr) return {};
  if (Status status = expect(*field, Type::kNumber, quoted(key)); !status.ok()) return status;
  const double number = field->number;
  if (number < 1 || number > Topology::kMostLeaves || number != static_cast<uint32_t>(number)) {
    return refuse(*field, quoted(key) + " is no whole number from 1 to " +
                              std::to_string(Topology::kMostLeaves));
  }
  value = static_cast<uint32_t>(number);
  return {};
}

}  // namespace tutti::topology
