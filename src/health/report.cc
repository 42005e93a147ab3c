#include "src/health/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/base/words.h"

namespace tutti::health {
namespace {

std::string head_of(const CommunicatorHealth& health) {
  return fmt::format(
      "communicator {:#x}, epoch {}: recorders of {} of {} ranks, {} calls in common",
      health.communicator, health.epoch, health.present.size(), health.ranks, health.calls);
}

std::string escaped(const std::string& text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

// Rows are senders, columns receivers; white is the fastest, red the slowest.
std::string picture_of(const DelayMatrix& matrix) {
  constexpr double kSide = 18, kEdge = 40;
  double fastest = 1e300, slowest = 0;
  for (uint32_t source = 0; source < matrix.ranks(); ++source) {
    for (uint32_t target = 0; target < matrix.ranks(); ++target) {
      const double delay = matrix.delay(source, target).value_or(0);
      if (delay == 0) continue;
      fastest = std::min(fastest, delay);
      slowest = std::max(slowest, delay);
    }
  }
  const double size = kEdge + kSide * matrix.ranks();
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"10\">\n",
      size + 1, size + 1);
  for (uint32_t one = 0; one < matrix.ranks(); ++one) {
    const double at = kEdge + kSide * (one + 0.7);
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>"
                   "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                   kEdge - 4, at, one, kEdge + kSide * (one + 0.5), kEdge - 6, one);
    for (uint32_t other = 0; other < matrix.ranks(); ++other) {
      const auto delay = matrix.delay(one, other);
      if (!delay) continue;
      const double share = slowest > fastest ? (*delay - fastest) / (slowest - fastest) : 0;
      fmt::format_to(std::back_inserter(svg),
                     "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
                     "fill=\"rgb(255,{:.0f},{:.0f})\" stroke=\"#ccc\"><title>from {} to {}: "
                     "{:.3f} ms</title></rect>\n",
                     kEdge + kSide * other, kEdge + kSide * one, kSide, kSide, 255 - 200 * share,
                     255 - 225 * share, one, other, *delay / 1e6);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string text_report(const std::vector<CommunicatorHealth>& all, bool evidence) {
  std::string text;
  for (const CommunicatorHealth& health : all) {
    text += head_of(health) + "\n";
    for (const std::string& note : health.set_aside) text += "  " + note + "\n";
    for (const HealthVerdict& verdict : health.verdicts) {
      text += fmt::format("  {}: {}\n", name_of(verdict.kind), verdict.sentence);
      for (size_t i = 0; evidence && i < verdict.evidence.size(); ++i) {
        text += "    " + verdict.evidence[i] + "\n";
      }
    }
    if (health.verdicts.empty()) text += "  nothing is wrong that recorders show\n";
  }
  return text;
}

std::string html_report(const std::vector<CommunicatorHealth>& all) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Health of "
      "communicators</title>\n<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}"
      "li{margin:.3em 0}.v{font-weight:bold}pre{background:#f4f4f4;padding:.5em}</style></head>"
      "<body>\n<h1>Health of communicators</h1>\n";
  for (const CommunicatorHealth& health : all) {
    html += "<h2>" + escaped(head_of(health)) + "</h2>\n<ul>\n";
    for (const std::string& note : health.set_aside) html += "<li>" + escaped(note) + "</li>\n";
    for (const HealthVerdict& verdict : health.verdicts) {
      html += fmt::format("<li><span class=\"v\">{}</span>: {}", name_of(verdict.kind),
                          escaped(verdict.sentence));
      if (!verdict.evidence.empty()) {
        html += "<pre>";
        for (const std::string& line : verdict.evidence) html += escaped(line) + "\n";
        html += "</pre>";
      }
      html += "</li>\n";
    }
    if (health.verdicts.empty()) html += "<li>nothing is wrong that recorders show</li>\n";
    html += "</ul>\n";
    if (health.delays) {
      html += "<p>Delays of each " + escaped(health.delays_of) +
              ", medians: senders are rows, receivers columns; red is the slowest.</p>\n" +
              picture_of(*health.delays);
    }
  }
  return html + "</body></html>\n";
}

}  // namespace tutti::health
