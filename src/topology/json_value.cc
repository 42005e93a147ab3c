#include "src/topology/json_value.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

namespace tutti::topology {
namespace {

constexpr size_t kDeepest = 64;

// Reads characters and counts lines. The parser reads one character behind a number; the line is
// that of the last one that is no white space, so a line's end there does not count.
class LineReader {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineReader(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineReader& operator++() {
    if (*at_ == '\n') {
      ++seen_;
    } else if (*at_ != ' ' && *at_ != '\t' && *at_ != '\r') {
      *line_ = seen_;
    }
    ++at_;
    return *this;
  }
  bool operator==(const LineReader& other) const { return at_ == other.at_; }
  bool operator!=(const LineReader& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  int seen_ = 1;
  int* line_;
};

// Hears from the library's parser of each thing that it meets; false ends the parsing.
class Tree {
 public:
  explicit Tree(const int* line) : line_(line) {}

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonValue made = of(JsonValue::Type::kBoolean);
    made.number = value ? 1 : 0;
    return add(std::move(made));
  }
  bool number_integer(int64_t value) { return add_number(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) { return add_number(static_cast<double>(value)); }
  bool number_float(double value, const std::string& /*text*/) { return add_number(value); }
  bool string(std::string& value) {
    JsonValue made = of(JsonValue::Type::kString);
    made.text = std::move(value);
    return add(std::move(made));
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return refuse("binary values are no JSON"); }
  bool start_object(size_t /*fields*/) { return open(JsonValue::Type::kObject); }
  bool start_array(size_t /*elements*/) { return open(JsonValue::Type::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    if (open_.back().find(value) != nullptr) return refuse("'" + value + "' stands twice");
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: why"
    const std::string text = error.what();
    const size_t column = text.find("column ");
    const size_t why = text.find(": ", column == std::string::npos ? 0 : column);
    return refuse("no JSON: " + (why == std::string::npos ? text : text.substr(why + 2)));
  }

  Result<JsonValue> take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

 private:
  JsonValue of(JsonValue::Type type) const {
    JsonValue made;
    made.type = type;
    return made;
  }
  bool refuse(const std::string& why) {
    status_ = Status::invalid_argument("line " + std::to_string(*line_) + ": " + why);
    return false;
  }
  bool add_number(double value) {
    JsonValue made = of(JsonValue::Type::kNumber);
    made.number = value;
    return add(std::move(made));
  }
  bool add(JsonValue value) {
    value.line = *line_;
    name(value);
    keep(std::move(value));
    return true;
  }
  bool open(JsonValue::Type type) {
    if (open_.size() == kDeepest) {
      return refuse("values lie more than " + std::to_string(kDeepest) + " deep");
    }
    JsonValue made = of(type);
    made.line = *line_;
    name(made);
    open_.push_back(std::move(made));
    return true;
  }
  bool close() {
    JsonValue done = std::move(open_.back());
    open_.pop_back();
    keep(std::move(done));
    return true;
  }
  void name(JsonValue& value) {
    if (!open_.empty() && open_.back().type == JsonValue::Type::kObject) {
      value.key = std::move(key_);
    }
  }
  void keep(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  const int* line_;
  std::vector<JsonValue> open_;  // from the outermost
  std::string key_;
  JsonValue root_;
  Status status_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const JsonValue& field : items) {
    if (field.key == name) return &field;
  }
  return nullptr;
}

std::string_view describe(JsonValue::Type type) {
  switch (type) {
    case JsonValue::Type::kNull:
      return "null";
    case JsonValue::Type::kBoolean:
      return "a truth value";
    case JsonValue::Type::kNumber:
      return "a number";
    case JsonValue::Type::kString:
      return "a string";
    case JsonValue::Type::kArray:
      return "an array";
    case JsonValue::Type::kObject:
      return "an object";
  }
  return "";
}

Result<JsonValue> parse_json(std::string_view text) {
  int line = 1;
  Tree tree(&line);
  const LineReader first(text.data(), &line);
  const LineReader last(text.data() + text.size(), &line);
  nlohmann::json::sax_parse(first, last, &tree);
  return tree.take();
}

}  // namespace tutti::topology
