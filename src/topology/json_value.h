// JSON text as a tree of values that know their lines, so that messages can name them.
//
// Threads: values. Errors: "line N: why", also for a name that stands twice in an object, which
// other readers resolve each in its own way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::topology {

struct JsonValue {
  enum class Type { kNull, kBoolean, kNumber, kString, kArray, kObject };

  Type type = Type::kNull;
  int line = 0;
  double number = 0;             // integers up to 2^53 are exact; of a truth value 1 or 0
  std::string text;              // of a string
  std::string key;               // of a field of an object
  std::vector<JsonValue> items;  // elements, or fields in their order

  /// The field of an object; null where it has none.
  const JsonValue* find(std::string_view name) const;
};

/// "an object", "a number" ...
std::string_view describe(JsonValue::Type type);

/// The whole text is one value, at most 64 values deep.
Result<JsonValue> parse_json(std::string_view text);

}  // namespace tutti::topology
