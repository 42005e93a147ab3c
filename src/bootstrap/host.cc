#include "src/bootstrap/host.h"

#include <sodium.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>

#include "src/base/host_name.h"
#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "pid:[4026531836]".
std::string name_space(const char* path) {
  std::array<char, 64> text{};
  const ssize_t bytes = readlink(path, text.data(), text.size());
  return bytes > 0 ? std::string(text.data(), static_cast<size_t>(bytes)) : std::string();
}

/// A host id is one word of a card.
std::string name_as_word() {
  std::string name = host_name();
  for (char& letter : name) {
    if (letter <= ' ' || letter >= 0x7f) letter = '_';
  }
  return name;
}

}  // namespace

std::string host_id(const Config& config) {
  return config.host_id.empty() ? host_fingerprint() : config.host_id;
}

std::string host_fingerprint() {
  const std::string name = name_as_word();
  const std::string facts = first_line("/proc/sys/kernel/random/boot_id") + "\n" + name + "\n" +
                            name_space("/proc/self/ns/uts") + "\n" +
                            name_space("/proc/self/ns/pid");
  std::array<uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const uint8_t*>(facts.data()),
                     facts.size(), nullptr, 0);
  constexpr size_t kShownBytes = 8;
  return name + "-" + to_hex({reinterpret_cast<const char*>(hash.data()), kShownBytes});
}

}  // namespace tutti::bootstrap
