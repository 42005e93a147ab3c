#include "tools/topology/link_table.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "src/topology/hash.h"
#include "src/topology/json_value.h"
#include "src/topology/text_file.h"

namespace tutti::topology {
namespace {

constexpr int kLinksFormat = 1;

Status refuse(const JsonValue& at, const std::string& why) {
  return Status::invalid_argument("line " + std::to_string(at.line) + ": " + why);
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back("\"" + word + "\"");
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string matrix_text(const std::vector<std::vector<double>>& matrix) {
  std::vector<std::string> rows;
  for (const std::vector<double>& row : matrix) {
    rows.push_back(fmt::format("\n    [{}]", fmt::join(row, ", ")));
  }
  return fmt::format("[{}]", fmt::join(rows, ","));
}

Status take_matrix(const JsonValue& file, std::string_view key, size_t hosts,
                   std::vector<std::vector<double>>& matrix) {
  const JsonValue* rows = file.find(key);
  const std::string what = "'" + std::string(key) + "' is no matrix of " + std::to_string(hosts) +
                           " rows with as many numbers of at least 0";
  if (rows == nullptr) return refuse(file, "there is no '" + std::string(key) + "'");
  if (rows->items.size() != hosts) return refuse(*rows, what);
  for (const JsonValue& row : rows->items) {
    std::vector<double>& numbers = matrix.emplace_back();
    if (row.items.size() != hosts) return refuse(row, what);
    for (const JsonValue& value : row.items) {
      if (value.type != JsonValue::Type::kNumber || value.number < 0) return refuse(value, what);
      numbers.push_back(value.number);
    }
  }
  return {};
}

Result<LinkTable> links_of(const JsonValue& file) {
  const JsonValue* format = file.find("tutti_links");
  if (format == nullptr || format->number != kLinksFormat) {
    return refuse(file, "this is no table of links of format " + std::to_string(kLinksFormat));
  }
  LinkTable links;
  const JsonValue* hosts = file.find("hosts");
  if (hosts == nullptr) return refuse(file, "there are no 'hosts'");
  for (const JsonValue& host : hosts->items) links.hosts.push_back(host.text);
  Status status = take_matrix(file, "latency_ns", links.hosts.size(), links.latency_ns);
  if (status.ok()) {
    status = take_matrix(file, "bytes_per_ns", links.hosts.size(), links.bytes_per_ns);
  }
  if (!status.ok()) return status;
  return links;
}

std::string print_matrix(const LinkTable& links, const std::vector<std::vector<double>>& matrix,
                         const std::string& title, double scale) {
  constexpr size_t kWidest = 16;
  std::string text = title + "\n" + std::string(kWidest, ' ');
  for (const std::string& host : links.hosts) text += fmt::format(" {:>10.10}", host);
  text += "\n";
  for (size_t row = 0; row < matrix.size(); ++row) {
    text += fmt::format("{:16.16}", links.hosts[row]);
    for (size_t column = 0; column < matrix.size(); ++column) {
      text += row == column ? fmt::format(" {:>10}", "-")
                            : fmt::format(" {:10.2f}", matrix[row][column] * scale);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string write_links(const LinkTable& links) {
  return fmt::format(
      "{{\n  \"tutti_links\": {},\n  \"hosts\": {},\n  \"latency_ns\": {},\n"
      "  \"bytes_per_ns\": {}\n}}\n",
      kLinksFormat, quoted_list(links.hosts), matrix_text(links.latency_ns),
      matrix_text(links.bytes_per_ns));
}

Result<LinkTable> parse_links(std::string_view text, const std::string& file) {
  const Result<JsonValue> parsed = parse_json(text);
  if (!parsed.ok()) return in_file(parsed.status(), file);
  Result<LinkTable> links = links_of(parsed.value());
  if (!links.ok()) return in_file(links.status(), file);
  return links;
}

std::string links_path(const std::vector<std::string>& hosts, const Variables& variables) {
  const std::string folder = user_cache_folder(variables);
  if (folder.empty()) return "";
  std::vector<std::string> sorted = hosts;
  std::sort(sorted.begin(), sorted.end());
  return folder +
         fmt::format("/links-{:016x}.json", fnv1a(fmt::format("{}", fmt::join(sorted, "\n"))));
}

std::string print_links(const LinkTable& links) {
  return print_matrix(links, links.latency_ns, "latency, us one way", 1e-3) +
         print_matrix(links, links.bytes_per_ns, "bandwidth, GB/s in one direction", 1);
}

}  // namespace tutti::topology
