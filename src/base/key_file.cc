#include "src/base/key_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/io.h"
#include "src/base/private_file.h"
#include "src/base/words.h"

namespace tutti {

std::optional<std::array<uint8_t, kKeyBytes>> parse_key(std::string_view text) {
  const std::optional<std::string> bytes = from_hex(trim(text));
  if (!bytes || bytes->size() != kKeyBytes) return std::nullopt;
  std::array<uint8_t, kKeyBytes> key{};
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

Result<std::array<uint8_t, kKeyBytes>> read_key_file(const std::string& path) {
  // Non-blocking: opening a pipe by mistake must not hang.
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return errno_status("TUTTI_KEY_FILE: cannot open '" + path + "'");
  if (Status status = check_private(fd.get()); !status.ok()) {
    return Status(status.code(), "TUTTI_KEY_FILE: '" + path + "' " + std::string(status.message()));
  }
  char text[4 * kKeyBytes];
  ssize_t bytes = 0;
  do {
    bytes = read(fd.get(), text, sizeof text);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return errno_status("TUTTI_KEY_FILE: cannot read '" + path + "'");
  const auto key = parse_key(std::string_view(text, static_cast<size_t>(bytes)));
  if (!key) {
    return Status::invalid_argument("TUTTI_KEY_FILE: '" + path +
                                    "' does not hold 64 hexadecimal digits (make one with: "
                                    "openssl rand -hex 32)");
  }
  return *key;
}

}  // namespace tutti
