#include "src/topology/text_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/write_signals.h"

namespace tutti::topology {
namespace {

Status write_all(int file, std::string_view text) {
  constexpr uint64_t kPatienceNs = 10 * kNanosecondsPerSecond;  // of a pipe
  while (!text.empty()) {
    const ssize_t written = write_quietly(file, text);
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (written == 0 || errno != EAGAIN) return errno_status("cannot be written");
    if (!wait_ready(file, POLLOUT, monotonic_ns() + kPatienceNs)) {
      return Status::timeout("nobody reads it");
    }
  }
  return {};
}

Status write_into(const std::string& path, std::string_view text) {
  // A pipe without a reader would be waited for without O_NONBLOCK.
  const Fd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644));
  return file.valid() ? write_all(file.get(), text) : errno_status("cannot be opened");
}

/// `before`: the file of that name; null: there is none.
Status replace_file(const std::string& path, std::string_view text, const struct stat* before) {
  const std::string unfinished =
      path + "." + std::to_string(getpid()) + "." + std::to_string(gettid()) + ".new";
  unlink(unfinished.c_str());  // of a process with this number that was killed
  const Fd file(
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) return errno_status("cannot be made");
  Status status;
  if (before != nullptr) {
    (void)!fchown(file.get(), before->st_uid, before->st_gid);  // only root may
    if (fchmod(file.get(), before->st_mode & 07777) != 0) status = errno_status("keeps no mode");
  }
  if (status.ok()) status = write_all(file.get(), text);
  if (status.ok() && ::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = errno_status("cannot be replaced");
  }
  if (!status.ok()) unlink(unfinished.c_str());
  return status;
}

}  // namespace

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
  struct stat found {};
  const bool exists = lstat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return errno_status(path);
  Status status = !exists || S_ISREG(found.st_mode)
                      ? replace_file(path, text, exists ? &found : nullptr)
                      : write_into(path, text);
  return status.ok() ? status : in_file(status, path);
}

Status in_file(const Status& status, const std::string& file) {
  constexpr std::string_view kLine = "line ";
  std::string_view message = status.message();
  const bool has_line = message.starts_with(kLine);
  if (has_line) message.remove_prefix(kLine.size());
  return {status.code(), file + (has_line ? ":" : ": ") + std::string(message)};
}

}  // namespace tutti::topology
