// XML text as a tree of elements that know their lines: what descriptions of machines use of XML,
// elements and attributes. Text between elements is refused, but for white space.
//
// Threads: values. Errors: "line N: why".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace tutti::topology {

struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;  // in their order, each once
  std::vector<XmlElement> children;

  /// Null where there is none.
  const std::string* find(std::string_view attribute) const;
};

/// The one element that the text holds, at most 64 elements deep.
Result<XmlElement> parse_xml(std::string_view text);

/// With &amp; and the like for what may not stand in an attribute.
std::string escape_xml(std::string_view text);

}  // namespace tutti::topology
