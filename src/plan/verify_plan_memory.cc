#include "src/plan/verify_plan_memory.h"

#include <algorithm>

namespace tutti::plan::verifier {

Memory::Memory(uint64_t bytes, Values& values) : bytes_(bytes), values_(&values) {
  if (bytes > 0) segments_[0].end = bytes;
}

// The segment that begins at `at`, after cutting the one that covers it.
Memory::Segments::iterator Memory::split(uint64_t at) {
  const auto next = segments_.lower_bound(at);
  if (next != segments_.end() && next->first == at) return next;
  if (at == bytes_) return segments_.end();
  Segment& covering = std::prev(next)->second;
  Segment tail = covering;
  covering.end = at;
  return segments_.emplace_hint(next, at, std::move(tail));
}

std::optional<Conflict> Memory::read(Range range, const Actor& actor, std::vector<Part>& parts) {
  parts.clear();
  if (range.size() == 0) return {};
  auto segment = split(range.begin);
  const auto end = split(range.end);
  for (; segment != end; ++segment) {
    auto& [begin, bytes] = *segment;
    if (!actor.clock->knows(bytes.writer)) return Conflict{bytes.writer, true, begin};
    const auto same_thread =
        std::find_if(bytes.readers.begin(), bytes.readers.end(),
                     [&](Timestamp reader) { return reader.thread == actor.now.thread; });
    if (same_thread == bytes.readers.end()) {
      bytes.readers.push_back(actor.now);
    } else {
      *same_thread = actor.now;
    }
    const ValueId value = values_->shift(bytes.value, static_cast<int64_t>(range.begin));
    parts.push_back({begin - range.begin, bytes.end - range.begin, value});
  }
  return {};
}

std::optional<Conflict> Memory::write(Range range, const Actor& actor,
                                      std::span<const Part> parts) {
  if (range.size() == 0) return {};
  const auto begin = split(range.begin);
  const auto end = split(range.end);
  for (auto segment = begin; segment != end; ++segment) {
    const auto& [at, bytes] = *segment;
    if (!actor.clock->knows(bytes.writer)) return Conflict{bytes.writer, true, at};
    for (Timestamp reader : bytes.readers) {
      if (!actor.clock->knows(reader)) return Conflict{reader, false, at};
    }
  }
  segments_.erase(begin, end);
  for (const Part& part : parts) {
    const ValueId value = values_->shift(part.value, -static_cast<int64_t>(range.begin));
    segments_[range.begin + part.begin] = {range.begin + part.end, value, actor.now, {}};
  }
  return {};
}

}  // namespace tutti::plan::verifier
