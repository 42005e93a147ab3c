#include "src/exec/registrations.h"

#include <algorithm>
#include <utility>

namespace tutti::exec {

uint32_t Registrations::add(Registration made) {
  last_number_ = last_number_ % (Registration::kNumbers - 1) + 1;  // however many were removed
  if (numbered(last_number_) != nullptr) return Registration::kNone;
  made.number = last_number_;
  all_.push_back(std::move(made));
  return last_number_;
}

void Registrations::restore(Registration kept) { all_.push_back(std::move(kept)); }

Registration Registrations::remove(uint32_t number) {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const Registration& one) { return one.number == number; });
  if (found == all_.end()) return {};
  Registration removed = std::move(*found);
  all_.erase(found);
  return removed;
}

const Registration* Registrations::numbered(uint32_t number) const {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const Registration& one) { return one.number == number; });
  return found == all_.end() ? nullptr : &*found;
}

const Registration* Registrations::holding(const void* memory, uint64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  for (const Registration& one : all_) {
    const std::byte* end = one.mine + one.bytes;
    const bool inside = begin >= one.mine && begin <= end;
    if (inside && bytes <= static_cast<uint64_t>(end - begin)) return &one;
  }
  return nullptr;
}

}  // namespace tutti::exec
