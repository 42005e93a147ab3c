#include "src/base/member_id.h"

#include <cinttypes>
#include <cstdio>

#include "src/base/words.h"

namespace tutti {
namespace {

constexpr size_t kWordDigits = 16;

}  // namespace

std::string to_text(const ProcessId& id) {
  char text[2 * kWordDigits + 1];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, id.high, id.low);
  return text;
}

std::optional<ProcessId> read_process_id(std::string_view text) {
  if (text.size() != 2 * kWordDigits) return std::nullopt;
  const auto high = parse_integer<uint64_t>(text.substr(0, kWordDigits), 16);
  const auto low = parse_integer<uint64_t>(text.substr(kWordDigits), 16);
  if (!high || !low) return std::nullopt;
  return ProcessId{*high, *low};
}

std::string to_text(const MemberId& id) {
  const bool is_numbered = id.number != MemberId::kNoNumber;
  return to_text(id.process) + ":" + (is_numbered ? std::to_string(id.number) : "-");
}

std::optional<MemberId> read_member_id(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto process = read_process_id(text.substr(0, colon));
  if (!process) return std::nullopt;
  const std::string_view number = text.substr(colon + 1);
  if (number == "-") return MemberId{*process, MemberId::kNoNumber};
  const auto read = parse_integer<uint32_t>(number);
  if (!read || *read == MemberId::kNoNumber) return std::nullopt;
  return MemberId{*process, *read};
}

}  // namespace tutti
