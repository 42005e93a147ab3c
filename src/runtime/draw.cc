// Pictures of timelines, as text: SVG, and Chrome's trace format for Perfetto.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "src/runtime/refuse.h"
#include "tutti/runtime/timeline.h"

namespace tutti::runtime {
namespace {

constexpr int kLeft = 110;    // pixels for the names of rows
constexpr int kWidth = 1000;  // of the whole time
constexpr int kRow = 18;
constexpr int kHead = 24;

/// Names come from callers: nothing in them may end a tag, an attribute or a string.
std::string escaped(std::string_view text, bool json) {
  std::string result;
  for (const char c : text) {
    if (json && (c == '"' || c == '\\')) {
      result += {'\\', c};
    } else if (!json && (c == '<' || c == '&' || c == '"')) {
      result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : "&quot;";
    } else {
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

/// Forward passes blue, backward ones green, as papers draw them; communication orange and red.
const char* color_of(const TimelineTask& task) {
  if (communicates(task.kind)) return task.track == Track::kCommHigh ? "#e8963c" : "#d0563f";
  if (task.kind == TaskKind::kCopy) return "#8f8f8f";
  return !task.name.empty() && (task.name[0] == 'B' || task.name[0] == 'b') ? "#5da46b" : "#5b8fd0";
}

/// Rows: the tracks of each rank that have tasks.
std::set<std::pair<int, int>> rows_of(const Timeline& timeline) {
  std::set<std::pair<int, int>> rows;
  for (const TimelineTask& task : timeline.tasks) {
    rows.emplace(task.rank, static_cast<int>(task.track));
  }
  return rows;
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, std::span<const NamedHistory> histories)
      : timeline_(timeline), rows_(rows_of(timeline)) {
    for (const NamedHistory& named : histories) {
      require(named.history.spans.size() == timeline.tasks.size(), "the history '", named.name,
              "' has ", named.history.spans.size(), " spans and the timeline ",
              timeline.tasks.size(), " tasks; they do not belong together");
      for (const TaskSpan& span : named.history.spans) last_ = std::max(last_, span.end.value);
    }
    // A common scale, so that simulated and measured can be compared by eye.
    height_ = std::ssize(histories) * (kHead + std::ssize(rows_) * kRow) + 8;
    svg_ = words("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kLeft + kWidth + 10,
                 "\" height=\"", height_, "\" font-family=\"sans-serif\" font-size=\"10\">\n",
                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    for (const NamedHistory& named : histories) add(named);
    svg_ += "</svg>\n";
  }

  const std::string& svg() const { return svg_; }

 private:
  int64_t x_of(Nanoseconds time) const {
    return kLeft + static_cast<int64_t>(static_cast<__int128>(time.value) * kWidth / last_);
  }

  void add(const NamedHistory& named) {
    Nanoseconds end{0};
    for (const TaskSpan& span : named.history.spans) end = std::max(end, span.end);
    svg_ += words("<text x=\"4\" y=\"", top_ + 16, "\" font-size=\"12\">",
                  std::string_view(escaped(named.name, false)), ": ", milliseconds(end),
                  " ms</text>\n");
    top_ += kHead;
    for (const auto& [rank, track] : rows_) {
      svg_ += words("<text x=\"4\" y=\"", top_ + 12, "\">rank ", rank, " ",
                    std::string_view(name_of(static_cast<Track>(track))), "</text>\n");
      for (size_t t = 0; t < timeline_.tasks.size(); ++t) {
        const TimelineTask& task = timeline_.tasks[t];
        if (task.rank == rank && static_cast<int>(task.track) == track) {
          add_task(task, named.history.spans[t]);
        }
      }
      top_ += kRow;
    }
  }

  void add_task(const TimelineTask& task, const TaskSpan& span) {
    const int64_t x = x_of(span.begin), width = std::max<int64_t>(1, x_of(span.end) - x);
    const std::string name = escaped(task.name, false);
    svg_ += words("<rect x=\"", x, "\" y=\"", top_, "\" width=\"", width, "\" height=\"", kRow - 2,
                  "\" fill=\"", color_of(task), "\" stroke=\"white\"><title>",
                  std::string_view(name), ": ", milliseconds(span.begin), " to ",
                  milliseconds(span.end), " ms</title></rect>\n");
    if (width >= 6 * std::ssize(name) + 2) {
      svg_ += words("<text x=\"", x + 2, "\" y=\"", top_ + 12, "\" fill=\"white\">",
                    std::string_view(name), "</text>\n");
    }
  }

  const Timeline& timeline_;
  std::set<std::pair<int, int>> rows_;
  int64_t last_ = 1;
  int64_t height_ = 0;
  int64_t top_ = 4;
  std::string svg_;
};

}  // namespace

std::string draw_svg(const Timeline& timeline, std::span<const NamedHistory> histories) {
  return Drawing(timeline, histories).svg();
}

std::string perfetto_json(const Timeline& timeline, std::span<const NamedHistory> histories) {
  const std::set<std::pair<int, int>> rows = rows_of(timeline);
  std::string json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const auto event = [&](const std::string& text) {
    json += (json.back() == '[' ? "\n" : ",\n") + text;
  };
  for (int64_t h = 0; h < std::ssize(histories); ++h) {
    const NamedHistory& named = histories[static_cast<size_t>(h)];
    require(named.history.spans.size() == timeline.tasks.size(), "the history '", named.name,
            "' does not belong to the timeline");
    const auto process = [&](int rank) { return h * timeline.ranks + rank; };
    for (const auto& [rank, track] : rows) {
      event(words("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", process(rank),
                  ",\"args\":{\"name\":\"", escaped(named.name, true), ", rank ", rank, "\"}}"));
      event(words("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", process(rank), ",\"tid\":",
                  track, ",\"args\":{\"name\":\"", name_of(static_cast<Track>(track)), "\"}}"));
    }
    for (size_t t = 0; t < timeline.tasks.size(); ++t) {
      const TimelineTask& task = timeline.tasks[t];
      const TaskSpan& span = named.history.spans[t];
      const auto microseconds = [](Nanoseconds time) { return double(time.value) / 1000; };
      event(words("{\"ph\":\"X\",\"name\":\"", escaped(task.name, true),
                  "\",\"pid\":", process(task.rank), ",\"tid\":", static_cast<int>(task.track),
                  ",\"ts\":", microseconds(span.begin),
                  ",\"dur\":", microseconds(span.end - span.begin),
                  ",\"args\":{\"bytes\":", task.bytes.value, "}}"));
    }
  }
  return json + "\n]}\n";
}

}  // namespace tutti::runtime
