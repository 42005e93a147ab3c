#include <iterator>

#include "src/base/config.h"

namespace tutti {
namespace {

struct MulticastWord {
  std::string_view word;
  MulticastWish wish;
};
constexpr MulticastWord kWords[] = {
    {"off", MulticastWish::kOff},       {"auto", MulticastWish::kAuto},
    {"always", MulticastWish::kAlways}, {"0", MulticastWish::kOff},
    {"1", MulticastWish::kAuto},        {"2", MulticastWish::kAuto}};

}  // namespace

std::optional<MulticastWish> parse_multicast(std::string_view text) {
  for (const MulticastWord& one : kWords) {
    if (text == one.word) return one.wish;
  }
  return std::nullopt;
}

std::string_view multicast_name(MulticastWish wish) {
  const auto index = static_cast<size_t>(wish);
  return index < std::size(kWords) ? kWords[index].word : "";
}

}  // namespace tutti
