#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "tests/support/dice.h"

namespace tutti::fuzz {
namespace {

using testing_support::Dice;

/// Numbers at which parsers change their mind.
constexpr uint64_t kEdges[] = {0,       1,          2,          0x7f,       0x80,
                               0xff,    0x100,      0x7fff,     0x8000,     0xffff,
                               0x10000, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0}};
constexpr std::string_view kWords[] = {
    "0", "1", "-1", "65536", "4294967296", " ",  "\n",
    ",", ":", "/",  "[",     "]",          "..", "18446744073709551616"};

size_t place(Dice& dice, const std::string& text) { return dice.below(text.size() + 1); }

void change_byte(Dice& dice, std::string& text) {
  if (text.empty()) return;
  text[dice.below(text.size())] = static_cast<char>(dice.next());
}

void flip_bit(Dice& dice, std::string& text) {
  if (text.empty()) return;
  text[dice.below(text.size())] ^= static_cast<char>(1 << dice.below(8));
}

void put_edge(Dice& dice, std::string& text) {
  const size_t bytes = size_t{1} << dice.below(4);
  if (text.size() < bytes) return;
  const size_t at = dice.below(text.size() - bytes + 1);
  uint64_t value = kEdges[dice.below(std::size(kEdges))];
  if (dice.one_in(4)) value += dice.below(3) - 1;
  for (size_t i = 0; i < bytes; ++i) text[at + i] = static_cast<char>(value >> (8 * i));
}

void insert_word(Dice& dice, std::string& text) {
  text.insert(place(dice, text), kWords[dice.below(std::size(kWords))]);
}

void insert_bytes(Dice& dice, std::string& text) {
  text.insert(place(dice, text), 1 + dice.below(8), static_cast<char>(dice.next()));
}

void erase(Dice& dice, std::string& text) {
  if (text.empty()) return;
  text.erase(dice.below(text.size()), 1 + dice.below(dice.one_in(4) ? text.size() : 8));
}

void repeat(Dice& dice, std::string& text) {
  if (text.empty()) return;
  const std::string part = text.substr(dice.below(text.size()), 1 + dice.below(64));
  text.insert(place(dice, text), part);
}

using Change = void (*)(Dice&, std::string&);
constexpr Change kChanges[] = {change_byte,  flip_bit, put_edge, insert_word,
                               insert_bytes, erase,    repeat};

}  // namespace

std::string mutate(const std::vector<std::string>& corpus, uint64_t seed, uint64_t number,
                   size_t max_bytes) {
  Dice dice(testing_support::mix(seed, number));
  std::string text = dice.pick(corpus);
  if (dice.one_in(8)) {
    const std::string& other = dice.pick(corpus);
    text = text.substr(0, place(dice, text)) + other.substr(place(dice, other));
  }
  for (uint64_t changes = 1 + dice.below(4); changes > 0; --changes) {
    kChanges[dice.below(std::size(kChanges))](dice, text);
  }
  if (text.size() > max_bytes) text.resize(max_bytes);
  return text;
}

}  // namespace tutti::fuzz
