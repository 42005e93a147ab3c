#include "src/topology/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "src/base/io.h"

namespace tutti::topology {

Result<std::string> read_text_file(const std::string& path) {
  constexpr size_t kLongest = size_t{64} << 20;
  // A pipe without a writer would not be waited for: O_NONBLOCK.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_status(path);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return errno_status(path);
  if (!S_ISREG(found.st_mode)) return Status::system_error(path + ": is no regular file");
  std::string text;
  char piece[1 << 16];
  for (;;) {
    const ssize_t got = read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(path);
    if (got == 0) return text;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kLongest) return Status::system_error(path + ": is longer than 64 MiB");
  }
}

Status write_text_file(const std::string& path, const std::string& text) {
  const std::string unfinished = path + "." + std::to_string(getpid()) + ".new";
  {
    const Fd file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return errno_status(path);
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(file.get(), text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const Status status = errno_status(path);
        unlink(unfinished.c_str());
        return status;
      }
      done += static_cast<size_t>(written);
    }
  }
  if (rename(unfinished.c_str(), path.c_str()) == 0) return {};
  const Status status = errno_status(path);
  unlink(unfinished.c_str());
  return status;
}

Status in_file(const Status& status, const std::string& file) {
  constexpr std::string_view kLine = "line ";
  std::string_view message = status.message();
  const bool has_line = message.starts_with(kLine);
  if (has_line) message.remove_prefix(kLine.size());
  return {status.code(), file + (has_line ? ":" : ": ") + std::string(message)};
}

}  // namespace tutti::topology
