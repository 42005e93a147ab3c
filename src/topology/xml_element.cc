#include "src/topology/xml_element.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "src/base/words.h"

namespace tutti::topology {
namespace {

constexpr size_t kDeepest = 64;

struct Entity {
  std::string_view name;
  char letter;
};
constexpr std::array<Entity, 5> kEntities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

class XmlParser {
 public:
  explicit XmlParser(std::string_view text) : text_(text) {}

  Result<XmlElement> run() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (sees(kByteOrderMark)) advance(kByteOrderMark.size());
    if (Status status = skip_between(); !status.ok()) return status;
    XmlElement root;
    if (Status status = element(root, 1); !status.ok()) return status;
    if (Status status = skip_between(); !status.ok()) return status;
    if (at_ < text_.size()) return refuse("there is a second element beside the first");
    return root;
  }

 private:
  Status refuse(const std::string& why) const { return refuse_at(line_, why); }
  static Status refuse_at(int line, const std::string& why) {
    return Status::invalid_argument("line " + std::to_string(line) + ": " + why);
  }

  bool ends() const { return at_ >= text_.size(); }
  bool sees(std::string_view token) const { return text_.substr(at_).starts_with(token); }
  void advance(size_t letters) {
    const std::string_view passed = text_.substr(at_, letters);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }
  void skip_space() {
    size_t letters = 0;
    while (at_ + letters < text_.size() && is_space(text_[at_ + letters])) ++letters;
    advance(letters);
  }
  Status skip_to_end_of(std::string_view what, std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return refuse(std::string(what) + " is not closed");
    advance(found + end.size() - at_);
    return {};
  }

  // White space, comments, <?xml ...?> and <!DOCTYPE ...>.
  Status skip_between() {
    for (;;) {
      skip_space();
      Status status;
      if (sees("<!--")) {
        status = skip_to_end_of("a comment", "-->");
      } else if (sees("<?")) {
        status = skip_to_end_of("'<?'", "?>");
      } else if (sees("<!DOCTYPE")) {
        status = skip_to_end_of("'<!DOCTYPE'", ">");
      } else {
        if (ends() || sees("<")) return {};
        return refuse("text stands where only elements do");
      }
      if (!status.ok()) return status;
    }
  }

  std::string name() {
    size_t letters = 0;
    while (at_ + letters < text_.size() && is_name(text_[at_ + letters])) ++letters;
    std::string found(text_.substr(at_, letters));
    advance(letters);
    return found;
  }

  Status element(XmlElement& made, size_t depth) {
    if (ends()) return refuse("there is no element");
    if (depth > kDeepest) {
      return refuse("elements lie more than " + std::to_string(kDeepest) + " deep");
    }
    made.line = line_;
    advance(1);  // '<'
    made.name = name();
    if (made.name.empty()) return refuse("'<' without the name of an element");
    for (;;) {
      skip_space();
      if (sees("/>")) {
        advance(2);
        return {};
      }
      if (sees(">")) {
        advance(1);
        return children(made, depth);
      }
      if (Status status = attribute(made); !status.ok()) return status;
    }
  }

  Status children(XmlElement& made, size_t depth) {
    for (;;) {
      if (Status status = skip_between(); !status.ok()) return status;
      if (ends()) {
        return refuse("<" + made.name + "> of line " + std::to_string(made.line) +
                      " is not closed");
      }
      if (sees("</")) {
        advance(2);
        const std::string closed = name();
        skip_space();
        if (closed != made.name) {
          return refuse("</" + closed + "> stands where <" + made.name + "> of line " +
                        std::to_string(made.line) + " is open");
        }
        if (!sees(">")) return refuse("</" + closed + " lacks its '>'");
        advance(1);
        return {};
      }
      if (Status status = element(made.children.emplace_back(), depth + 1); !status.ok()) {
        return status;
      }
    }
  }

  Status attribute(XmlElement& made) {
    const int line = line_;
    const std::string key = name();
    if (key.empty()) return refuse("<" + made.name + "> has no '>'");
    if (made.find(key) != nullptr) return refuse("'" + key + "' stands twice");
    skip_space();
    if (!sees("=")) return refuse("'" + key + "' has no value");
    advance(1);
    skip_space();
    if (!sees("\"") && !sees("'")) return refuse("the value of '" + key + "' is not in quotes");
    const char quote = text_[at_];
    advance(1);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) {
      return refuse_at(line, "the value of '" + key + "' is not closed");
    }
    const std::optional<std::string> value = unescaped(text_.substr(at_, end - at_));
    if (!value) return refuse("the value of '" + key + "' has a '<', or a '&' of no known entity");
    advance(end + 1 - at_);
    made.attributes.emplace_back(key, *value);
    return {};
  }

  static std::optional<std::string> unescaped(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
      if (text[0] == '<') return std::nullopt;
      if (text[0] != '&') {
        plain += text[0];
        text.remove_prefix(1);
        continue;
      }
      const size_t end = text.find(';');
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view entity = text.substr(1, end - 1);
      const auto known = std::find_if(kEntities.begin(), kEntities.end(),
                                      [&](const Entity& e) { return e.name == entity; });
      const auto number = entity.starts_with("#x")  ? parse_integer<uint8_t>(entity.substr(2), 16)
                          : entity.starts_with("#") ? parse_integer<uint8_t>(entity.substr(1))
                                                    : std::nullopt;
      if (known == kEntities.end() && (!number || *number == 0 || *number > 0x7f)) {
        return std::nullopt;
      }
      plain += known != kEntities.end() ? known->letter : static_cast<char>(*number);
      text.remove_prefix(end + 1);
    }
    return plain;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) return &value;
  }
  return nullptr;
}

Result<XmlElement> parse_xml(std::string_view text) { return XmlParser(text).run(); }

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    const auto known = std::find_if(kEntities.begin(), kEntities.end(),
                                    [&](const Entity& e) { return e.letter == letter; });
    escaped +=
        known == kEntities.end() ? std::string(1, letter) : "&" + std::string(known->name) + ";";
  }
  return escaped;
}

}  // namespace tutti::topology
