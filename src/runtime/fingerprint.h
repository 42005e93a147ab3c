// One number for a plan, by which ranks that computed it apart find out whether it is the same.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::runtime {

class Fingerprint {
 public:
  void add(int64_t value) {
    // A step of splitmix64 for each word: every bit of the state depends on all before.
    state_ += static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebu;
    state_ ^= state_ >> 31;
  }
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    for (const char c : text) add(static_cast<int64_t>(c));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

}  // namespace tutti::runtime
