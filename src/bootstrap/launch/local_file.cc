#include "src/bootstrap/launch/local_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "src/base/clock.h"
#include "src/base/private_file.h"
#include "src/base/write_signals.h"

namespace tutti::bootstrap {
namespace {

constexpr mode_t kFolderMode = 0700, kFileMode = 0600;

Status about(const std::string& path, const Status& status) {
  return Status(status.code(), "'" + path + "' " + std::string(status.message()));
}

Result<Fd> open_folder(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return errno_status("cannot open the folder '" + path + "'");
  if (Status status = check_private_directory(fd.get()); !status.ok()) return about(path, status);
  return fd;
}

enum class Found { kNothing, kLeftover, kAlive };

/// Opens what lies there, and asks its lock whether the maker lives.
Result<Found> look(int folder, const std::string& name, Fd& file) {
  file.reset(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return Found::kNothing;
    return errno_status("cannot be opened");
  }
  if (Status status = check_private(file.get()); !status.ok()) return status;
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return Found::kLeftover;
  return errno == EWOULDBLOCK ? Result<Found>(Found::kAlive) : errno_status("cannot be locked");
}

/// A new file under a name of this thread, locked, complete, and not yet visible under its own.
Result<Fd> write_hidden(int folder, const std::string& hidden, std::string_view bytes) {
  unlinkat(folder, hidden.c_str(), 0);  // of a killed process with this number
  Fd file(openat(folder, hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 kFileMode));
  if (!file.valid()) return errno_status("cannot be made");
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno_status("cannot be locked");
  const ssize_t count = write_quietly(file.get(), bytes);
  if (count == static_cast<ssize_t>(bytes.size())) return file;
  const Status status = errno_status("cannot be written");
  unlinkat(folder, hidden.c_str(), 0);
  return status;
}

Result<std::string> read_exactly(int file, size_t bytes) {
  std::string content(bytes + 1, '\0');
  const ssize_t count = pread(file, content.data(), content.size(), 0);
  if (count < 0) return errno_status("cannot be read");
  if (static_cast<size_t>(count) != bytes) {
    return Status::invalid_argument("has another size than it should");
  }
  content.resize(bytes);
  return content;
}

}  // namespace

LocalFile::LocalFile(Fd folder, Fd file, std::string path, std::string name)
    : folder_(std::move(folder)),
      file_(std::move(file)),
      folder_path_(std::move(path)),
      name_(std::move(name)) {}

LocalFile::~LocalFile() {
  if (!file_.valid()) return;
  unlinkat(folder_.get(), name_.c_str(), 0);
  rmdir(folder_path_.c_str());  // fails where something else lies there
}

std::string LocalFile::folder(const Variables& variables) {
  const auto runtime = variables.find("XDG_RUNTIME_DIR");
  if (runtime != variables.end() && open_folder(runtime->second).ok()) {
    return runtime->second + "/tutti";
  }
  return "/tmp/tutti-" + std::to_string(geteuid());
}

Result<LocalFile> LocalFile::post(const std::string& folder, const std::string& name,
                                  std::string_view bytes) {
  const std::string path = folder + "/" + name;
  constexpr int kAttempts = 16;  // another job's end may remove the folder in between
  Status refusal = Status::system_error("cannot be made: its folder vanishes all the time");
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return errno_status("cannot make the folder '" + folder + "'");
    }
    Result<Fd> opened = open_folder(folder);
    if (!opened.ok()) {
      if (opened.status().code() != Code::kSystemError) return opened.status();
      continue;
    }
    const int at = opened.value().get();
    Fd before;
    const Result<Found> found = look(at, name, before);
    if (!found.ok()) return about(path, found.status());
    if (found.value() == Found::kAlive) {
      return Status::invalid_usage("'" + path +
                                   "' belongs to another job of this user that is "
                                   "starting now and looks the same; give each its own "
                                   "MASTER_PORT or TUTTI_ID");
    }
    const std::string hidden = "." + name + "-" + std::to_string(gettid());
    Result<Fd> file = write_hidden(at, hidden, bytes);
    if (file.ok() && renameat(at, hidden.c_str(), at, name.c_str()) == 0) {
      return LocalFile(std::move(opened).value(), std::move(file).value(), folder, name);
    }
    refusal = file.ok() ? errno_status("cannot be renamed") : file.status();
  }
  return about(path, refusal);
}

Result<std::string> LocalFile::await(const std::string& folder, const std::string& name,
                                     size_t bytes, const Patience& patience) {
  constexpr uint64_t kFirstPauseNs = 1'000'000, kLongestPauseNs = 20'000'000;
  const std::string path = folder + "/" + name;
  bool leftover = false;
  patience.waits_for("rank 0 has not posted '" + path + "'");
  for (uint64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    Result<Fd> opened = open_folder(folder);
    if (!opened.ok() && opened.status().code() == Code::kInvalidArgument) return opened.status();
    if (opened.ok()) {
      Fd file;
      const Result<Found> found = look(opened.value().get(), name, file);
      if (!found.ok()) return about(path, found.status());
      if (found.value() == Found::kAlive) {
        Result<std::string> content = read_exactly(file.get(), bytes);
        return content.ok() ? content : about(path, content.status());
      }
      leftover = found.value() == Found::kLeftover;
    }
    if (patience.over()) break;
    patience.pause(pause_ns);
  }
  return patience.reason(
      "rank 0 did not post '" + path + "'" +
      (leftover ? " (what lies there is left over from a process that ended)" : "") +
      ": does it run on this host, as this user?");
}

}  // namespace tutti::bootstrap
