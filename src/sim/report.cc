#include "src/sim/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::sim {

namespace {

std::string with_unit(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  for (; unit + 1 != units.end() && value >= step; ++unit) value /= step;
  return fmt::format("{:.4g} {}", value, *unit);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string describe_fold(const Outcome& outcome) {
  const Cast& cast = outcome.cast;
  const size_t ranks = cast.actor_of.size();
  if (!cast.is_folded()) {
    const std::string why = cast.refused.empty() ? "" : ": " + cast.refused;
    return fmt::format("{} ranks simulated, none folded{}\n", ranks, why);
  }
  return fmt::format("{} ranks folded into {}, {} of {} programs compared\n", ranks,
                     cast.actors.size(), cast.checked, ranks);
}

std::string describe_levels(const Outcome& outcome, const Network& network) {
  std::string text = "bytes between ranks, by level:";
  for (size_t level = 0; level < outcome.level_bytes.size(); ++level) {
    text += fmt::format("  {} {}", network.level(level).name,
                        text_of_bytes(outcome.level_bytes[level]));
  }
  return text + "\n";
}

std::string describe_links(const Outcome& outcome, const Network& network) {
  std::string text;
  const double time = nanoseconds(outcome.end);
  for (const LinkLoad& load : outcome.loads) {
    text +=
        fmt::format("  {:<24} {:>12} on the busiest, {:>12} on all", network.describe(load.link),
                    text_of_bytes(load.bytes), text_of_bytes(load.total));
    if (load.capacity > 0 && time > 0) {
      text += fmt::format(", {:.1f} % of {:.4g} GB/s", percent(load.bytes, load.capacity * time),
                          load.capacity);
    }
    text += "\n";
  }
  if (text.empty()) return text;
  const Busiest most = busiest(outcome);
  if (most.load == nullptr) return "links:\n" + text;
  return fmt::format("links (busiest: {}, {:.1f} % of the time):\n{}",
                     network.describe(most.load->link), 100 * most.share, text);
}

std::string describe_path(const Outcome& outcome, const Network& network, size_t hops) {
  const PathSummary path = summarize(outcome, network);
  const auto whole = static_cast<double>(outcome.end);
  std::string text = fmt::format("critical path, to rank {}:\n", outcome.rank_of(outcome.last));
  const auto line = [&](const std::string& what, const std::string& hop_text, Time time) {
    text += fmt::format("  {:<24} {:>12} {:>12} {:>6.1f} %\n", what, hop_text, text_of_time(time),
                        percent(static_cast<double>(time), whole));
  };
  for (const PathPart& part : path.parts) {
    line(part.what + ", bytes", fmt::format("{} hops", part.hops), part.wire);
    line(part.what + ", latency", "", part.latency);
  }
  line("work of ranks", "", path.work);
  const size_t first = outcome.path.size() > hops ? outcome.path.size() - hops : 0;
  for (size_t i = first; i < outcome.path.size(); ++i) {
    const PathHop& hop = outcome.path[i];
    text +=
        fmt::format("  rank {} to rank {}: begun {}, arrived {}\n", outcome.rank_of(hop.from),
                    outcome.rank_of(hop.to), text_of_time(hop.begun), text_of_time(hop.arrived));
  }
  return text;
}

}  // namespace

std::string text_of_time(Time time) {
  if (time == kNever) return "never";
  return with_unit(nanoseconds(time), 1000, {"ns", "us", "ms", "s"});
}

std::string text_of_bytes(double bytes) {
  return with_unit(bytes, 1000, {"B", "KB", "MB", "GB", "TB", "PB"});
}

PathSummary summarize(const Outcome& outcome, const Network& network) {
  std::map<std::pair<uint8_t, bool>, PathPart> parts;
  PathSummary summary;
  Time at = 0;
  for (const PathHop& hop : outcome.path) {
    PathPart& part = parts[{hop.level, hop.streams}];
    part.what = network.level(hop.level).name + (hop.streams ? " messages" : " signals");
    ++part.hops;
    // A wait may have begun before the hop that ended the one before.
    const Time begun = std::max(at, hop.begun), out = std::max(begun, hop.out);
    summary.work += begun - at;
    part.wire += out - begun;
    part.latency += hop.arrived > out ? hop.arrived - out : 0;
    at = std::max(at, hop.arrived);
  }
  summary.work += outcome.end > at ? outcome.end - at : 0;
  for (auto& [key, part] : parts) summary.parts.push_back(std::move(part));
  return summary;
}

Busiest busiest(const Outcome& outcome) {
  Busiest most;
  const double time = nanoseconds(outcome.end);
  for (const LinkLoad& load : outcome.loads) {
    if (load.capacity == 0 || time == 0) continue;
    const double share = load.bytes / (load.capacity * time);
    if (most.load == nullptr || share > most.share) most = {&load, share};
  }
  return most;
}

std::string describe(const Outcome& outcome, const Network& network, size_t hops) {
  std::string text = outcome.is_complete
                         ? fmt::format("time: {}\n", text_of_time(outcome.end))
                         : fmt::format("it never ends; the last that happens is at {}\n",
                                       text_of_time(outcome.end));
  for (const std::string& sentence : outcome.stuck) text += "  " + sentence + "\n";
  text += describe_fold(outcome);
  text += describe_levels(outcome, network);
  text += describe_links(outcome, network);
  text += describe_path(outcome, network, hops);
  return text;
}

std::string perfetto_json(const Outcome& outcome, const Network& network) {
  constexpr uint32_t kMessages = 1000;  // the first thread of messages
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const char* comma = "";
  std::map<uint32_t, bool> named;
  for (const Span& span : outcome.spans) {
    const int rank = outcome.rank_of(span.actor);
    if (!std::exchange(named[span.actor], true)) {
      text += fmt::format(
          "{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}, "
          "{} {}\"}}}}",
          comma, rank, rank, network.level(0).name, network.node_of(0, rank));
      comma = ",\n";
    }
    static constexpr const char* kNames[] = {"copy or fold", "wait for rank {}", "message to {}"};
    const std::string name =
        fmt::format(fmt::runtime(kNames[static_cast<int>(span.kind)]), span.peer);
    const bool sends = span.kind == SpanKind::kSend;
    text += fmt::format(
        "{}{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.6f},\"dur\":{:.6f},\"name\":\"{}\","
        "\"args\":{{\"bytes\":{:.0f},\"slice\":{}}}}}",
        comma, rank, sends ? kMessages + span.peer : span.lane, nanoseconds(span.begin) / 1000,
        nanoseconds(span.end - span.begin) / 1000, name, span.bytes, span.slice);
  }
  return text + "\n]}\n";
}

}  // namespace tutti::sim
