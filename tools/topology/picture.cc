#include "tools/topology/picture.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "src/topology/equal_nodes.h"
#include "src/topology/xml_element.h"

namespace tutti::topology {
namespace {

// In pixels.
constexpr int kGap = 8;
constexpr int kLine = 15;  // of text
constexpr int kLetter = 7;
constexpr size_t kInARow = 6;
// From the outermost level inwards, pale to dark, and again.
constexpr std::array<const char*, 4> kColours = {"#f7f9fb", "#e6edf4", "#d2dfec", "#bccfe2"};

struct Box {
  std::vector<std::string> lines;
  std::vector<Box> inside;
  size_t depth = 0;
  int x = 0, y = 0;  // within the box that holds it
  int width = 0, height = 0;
};

class Picture {
 public:
  explicit Picture(const Topology& topology) : topology_(topology), equal_(topology) {}

  std::string draw() const {
    const Box root = box_of(topology_.levels() - 1, {0, 1}, 0);
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n",
        root.width, root.height);
    draw_box(root, 0, 0, text);
    return text + "</svg>\n";
  }

 private:
  std::string title(size_t level, const Neighbours& nodes) const {
    const std::string names = equal_.names(level, nodes);
    std::string text = topology_.level(level).name + (names.empty() ? "" : " " + names);
    return nodes.count == 1 ? text : text + fmt::format(" x {}", nodes.count);
  }

  // The links inside a node, and its own to the node above, as far as they are known.
  std::string rates(size_t level, uint32_t node) const {
    const LevelSpec& spec = topology_.level(level);
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    if (spec.latency_ns > 0) add(fmt::format("{:.6g} us", spec.latency_ns / 1000));
    if (spec.shared_bytes_per_ns > 0)
      add(fmt::format("shared {:.6g} GB/s", spec.shared_bytes_per_ns));
    const double uplink = topology_.uplink_bytes_per_ns(level, node);
    if (uplink > 0) add(fmt::format("uplink {:.6g} GB/s", uplink));
    return text;
  }

  Box box_of(size_t level, const Neighbours& nodes, size_t depth) const {
    Box box;
    box.depth = depth;
    box.lines.push_back(title(level, nodes));
    const std::string said = rates(level, nodes.first);
    if (!said.empty()) box.lines.push_back(said);
    if (level == 0) {
      const uint32_t leaves = topology_.children(0, nodes.first).size();
      box.lines.push_back(fmt::format("{} {}", leaves, leaves == 1 ? "place" : "places"));
    } else {
      for (const Neighbours& below : equal_.children(level, nodes.first)) {
        box.inside.push_back(box_of(level - 1, below, depth + 1));
      }
    }
    lay_out(box);
    return box;
  }

  static void lay_out(Box& box) {
    size_t letters = 0;
    for (const std::string& line : box.lines) letters = std::max(letters, line.size());
    box.width = static_cast<int>(letters) * kLetter + 2 * kGap;
    int top = static_cast<int>(box.lines.size()) * kLine + kGap;
    for (size_t first = 0; first < box.inside.size(); first += kInARow) {
      int left = kGap, tallest = 0;
      for (size_t i = first; i < std::min(first + kInARow, box.inside.size()); ++i) {
        Box& inner = box.inside[i];
        inner.x = left;
        inner.y = top;
        left += inner.width + kGap;
        tallest = std::max(tallest, inner.height);
      }
      box.width = std::max(box.width, left);
      top += tallest + kGap;
    }
    box.height = top;
  }

  static void draw_box(const Box& box, int x, int y, std::string& text) {
    text += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#41566b\"/>\n", x,
        y, box.width, box.height, kColours[box.depth % kColours.size()]);
    int line_y = y;
    for (const std::string& line : box.lines) {
      line_y += kLine;
      text +=
          fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + kGap, line_y, escape_xml(line));
    }
    for (const Box& inner : box.inside) draw_box(inner, x + inner.x, y + inner.y, text);
  }

  const Topology& topology_;
  const EqualNodes equal_;
};

}  // namespace

std::string draw_tree(const Topology& topology) { return Picture(topology).draw(); }

}  // namespace tutti::topology
