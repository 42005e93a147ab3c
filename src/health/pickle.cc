#include "src/health/pickle.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::health {
namespace {

using topology::JsonValue;

constexpr int kDeepest = 64;
constexpr size_t kMostValues = 4 << 20;

/// A value while it is read: containers are filled after they were named.
struct PickleNode {
  enum class NodeRole { kValue, kMark, kListMaker };
  NodeRole role = NodeRole::kValue;
  JsonValue value;  // without its items
  std::vector<std::shared_ptr<PickleNode>> items;
  std::vector<std::shared_ptr<PickleNode>> keys;  // of a dictionary
};
using NodePointer = std::shared_ptr<PickleNode>;

NodePointer node_of(JsonValue::Type type) {
  auto node = std::make_shared<PickleNode>();
  node->value.type = type;
  return node;
}

NodePointer number_node(double number) {
  NodePointer node = node_of(JsonValue::Type::kNumber);
  node->value.number = number;
  return node;
}

NodePointer text_node(std::string_view text) {
  NodePointer node = node_of(JsonValue::Type::kString);
  node->value.text = text;
  return node;
}

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : rest_(bytes) {}

  Result<JsonValue> run() {
    while (!stopped_ && why_.empty()) step();
    if (why_.empty() && stack_.size() != 1) fail("it does not end with one value");
    JsonValue value;
    if (why_.empty()) write_out(*stack_.back(), 0, value);
    if (!why_.empty()) return Status::remote_error("this pickle cannot be read: " + why_);
    return value;
  }

 private:
  void fail(const std::string& why) {
    if (why_.empty()) why_ = why;
  }

  std::string_view take(size_t count) {
    if (count > rest_.size()) {
      fail("it is cut off");
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    const std::string_view taken = take(bytes);
    for (size_t i = taken.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(taken[i]);
    return value;
  }

  // Of one byte more than a length says there is no word in what plain data needs.
  void long_number(size_t bytes) {
    if (bytes > 9) return fail("a number is longer than 64 bits");
    uint64_t value = 0;
    const std::string_view taken = take(bytes);
    for (size_t i = std::min<size_t>(taken.size(), 8); i-- > 0;) {
      value = value << 8 | static_cast<uint8_t>(taken[i]);
    }
    const bool negative = !taken.empty() && taken.size() <= 8 && (taken.back() & 0x80) != 0;
    if (negative && taken.size() < 8) value |= ~uint64_t{0} << (8 * taken.size());
    push(number_node(negative ? static_cast<double>(static_cast<int64_t>(value))
                              : static_cast<double>(value)));
  }

  void real_number() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
    push(number_node(std::bit_cast<double>(bits)));
  }

  std::string line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      fail("it is cut off");
      return {};
    }
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  void push(NodePointer node) {
    if (++made_ > kMostValues) return fail("it has too many values");
    stack_.push_back(std::move(node));
  }

  NodePointer pop() {
    if (stack_.empty()) {
      fail("a value is missing");
      return node_of(JsonValue::Type::kNull);
    }
    NodePointer node = std::move(stack_.back());
    stack_.pop_back();
    return node;
  }

  // The values above the last mark.
  std::vector<NodePointer> pop_to_mark() {
    std::vector<NodePointer> nodes;
    size_t at = stack_.size();
    while (at > 0 && stack_[at - 1]->role != PickleNode::NodeRole::kMark) --at;
    if (at == 0) {
      fail("a mark is missing");
      return nodes;
    }
    nodes.assign(stack_.begin() + static_cast<std::ptrdiff_t>(at), stack_.end());
    stack_.resize(at - 1);
    return nodes;
  }

  void append(std::vector<NodePointer> nodes) {
    if (stack_.empty() || stack_.back()->value.type != JsonValue::Type::kArray) {
      return fail("there is no list to append to");
    }
    for (NodePointer& node : nodes) stack_.back()->items.push_back(std::move(node));
  }

  void set_items(std::vector<NodePointer> nodes) {
    if (stack_.empty() || stack_.back()->value.type != JsonValue::Type::kObject ||
        nodes.size() % 2 != 0) {
      return fail("there is no dictionary to fill");
    }
    for (size_t i = 0; i < nodes.size(); i += 2) {
      stack_.back()->keys.push_back(std::move(nodes[i]));
      stack_.back()->items.push_back(std::move(nodes[i + 1]));
    }
  }

  void tuple(std::vector<NodePointer> nodes) {
    NodePointer node = node_of(JsonValue::Type::kArray);
    node->items = std::move(nodes);
    push(std::move(node));
  }

  std::vector<NodePointer> pop_many(size_t count) {
    std::vector<NodePointer> nodes(count);
    for (size_t i = count; i-- > 0;) nodes[i] = pop();
    return nodes;
  }

  void global() {
    const std::string module = line(), name = line();
    if (module != "torch.jit._pickle" || !name.starts_with("build_") || !name.ends_with("list")) {
      return fail("it names " + module + "." + name + ", which is no plain data");
    }
    NodePointer node = node_of(JsonValue::Type::kNull);
    node->role = PickleNode::NodeRole::kListMaker;
    push(std::move(node));
  }

  // A typed list: the function of its name gets the list as its only argument.
  void reduce() {
    const NodePointer arguments = pop(), function = pop();
    if (function->role != PickleNode::NodeRole::kListMaker || arguments->items.size() != 1) {
      return fail("it calls a function");
    }
    push(arguments->items.front());
  }

  void remember(uint64_t place) {
    if (stack_.empty()) return fail("there is nothing to remember");
    memo_[place] = stack_.back();
  }

  void recall(uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) return fail("it recalls what it has not remembered");
    push(found->second);
  }

  void boolean(bool value) {
    NodePointer node = node_of(JsonValue::Type::kBoolean);
    node->value.number = value ? 1 : 0;
    push(std::move(node));
  }

  void step() {
    const std::string_view code = take(1);
    if (code.empty()) return;
    switch (code[0]) {
      case '\x80':
        take(1);
        return;  // protocol
      case '\x95':
        take(8);
        return;  // frame
      case '.':
        stopped_ = true;
        return;
      case 'N':
        return push(node_of(JsonValue::Type::kNull));
      case '\x88':
        return boolean(true);
      case '\x89':
        return boolean(false);
      case 'J':
        return push(number_node(static_cast<int32_t>(number(4))));
      case 'K':
        return push(number_node(static_cast<double>(number(1))));
      case 'M':
        return push(number_node(static_cast<double>(number(2))));
      case '\x8a':
        return long_number(number(1));
      case 'G':
        return real_number();
      default:
        return step_of_containers(code[0]);
    }
  }

  void step_of_containers(char code) {
    switch (code) {
      case 'X':
        return push(text_node(take(number(4))));
      case '\x8c':
        return push(text_node(take(number(1))));
      case 'U':
        return push(text_node(take(number(1))));
      case '}':
        return push(node_of(JsonValue::Type::kObject));
      case ']':
        return push(node_of(JsonValue::Type::kArray));
      case ')':
        return tuple({});
      case '(': {
        NodePointer node = node_of(JsonValue::Type::kNull);
        node->role = PickleNode::NodeRole::kMark;
        return push(std::move(node));
      }
      case 't':
        return tuple(pop_to_mark());
      case '\x85':
        return tuple(pop_many(1));
      case '\x86':
        return tuple(pop_many(2));
      case '\x87':
        return tuple(pop_many(3));
      case 'a':
        return append(pop_many(1));
      case 'e':
        return append(pop_to_mark());
      case 's':
        return set_items(pop_many(2));
      case 'u':
        return set_items(pop_to_mark());
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case '\x94':
        return remember(memo_.size());
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 'c':
        return global();
      case 'R':
        return reduce();
      default:
        return fail("code " + std::to_string(static_cast<uint8_t>(code)) + " is no plain data");
    }
  }

  // A container that is named several times is written out as often: it may not grow without bound,
  // nor hold itself.
  void write_out(const PickleNode& node, int depth, JsonValue& value) {
    if (depth > kDeepest || ++written_ > kMostValues) return fail("it is nested too deeply");
    value.type = node.value.type;
    value.number = node.value.number;
    value.text = node.value.text;
    value.items.resize(node.items.size());
    for (size_t i = 0; i < node.items.size() && why_.empty(); ++i) {
      write_out(*node.items[i], depth + 1, value.items[i]);
      if (i >= node.keys.size()) continue;
      const JsonValue& key = node.keys[i]->value;
      value.items[i].key = key.type == JsonValue::Type::kNumber
                               ? std::to_string(static_cast<int64_t>(key.number))
                               : key.text;
    }
  }

  std::string_view rest_;
  std::vector<NodePointer> stack_;
  std::map<uint64_t, NodePointer> memo_;
  size_t made_ = 0, written_ = 0;
  bool stopped_ = false;
  std::string why_;
};

}  // namespace

Result<JsonValue> read_pickle(std::string_view bytes) { return PickleReader(bytes).run(); }

}  // namespace tutti::health
