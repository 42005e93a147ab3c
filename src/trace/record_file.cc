#include "src/trace/record_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "src/base/io.h"
#include "src/base/private_file.h"
#include "src/base/write_signals.h"

namespace tutti::trace {
namespace {

constexpr uint64_t kRecordMagic = 0x4c49414654545554;  // "TUTTFAIL"

/// In front of each record; the reason and the recorder follow.
struct Head {
  uint64_t magic;
  uint32_t version;
  uint32_t reason_bytes;
  uint64_t recorder_bytes;
  uint64_t at_ns;
  uint64_t wall_s;
};

Status append(int fd, const FailureRecord& failure, std::string_view file) {
  const Head head{kRecordMagic, kVersion,      static_cast<uint32_t>(failure.reason.size()),
                  file.size(),  failure.at_ns, failure.wall_s};
  std::string record(reinterpret_cast<const char*>(&head), sizeof head);
  record += failure.reason;
  record += file;
  const ssize_t count = write_quietly(fd, record);
  if (count < 0) return errno_status("write");
  if (static_cast<size_t>(count) < record.size()) return Status::system_error("it is cut off");
  return {};
}

/// The record of a failed communicator is of no use to anybody after so many later ones.
constexpr size_t kMostFiles = 64;

void remove_oldest(int folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listed(fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 3)),
                                                   closedir);
  if (listed == nullptr) return;
  std::vector<std::pair<int64_t, std::string>> files;
  for (const dirent* entry = readdir(listed.get()); entry != nullptr;
       entry = readdir(listed.get())) {
    struct stat file {};
    const bool is_ours = std::string_view(entry->d_name).starts_with("trace-");
    if (!is_ours || fstatat(folder, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    files.emplace_back(file.st_mtim.tv_sec, entry->d_name);
  }
  if (files.size() <= kMostFiles) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - kMostFiles);
  for (const auto& [time, name] : files) unlinkat(folder, name.c_str(), 0);
}

/// The first record of `content`, which loses it.
Result<Snapshot> take_record(std::string_view& content) {
  const Status cut_off = Status::remote_error("its last record is cut off");
  Head head{};
  if (content.size() < sizeof head) return cut_off;
  std::memcpy(&head, content.data(), sizeof head);
  if (head.magic != kRecordMagic) return Status::remote_error("this is no flight recorder");
  if (head.version != kVersion) return Status::remote_error("a record of another version of Tutti");
  content.remove_prefix(sizeof head);
  if (head.reason_bytes > content.size()) return cut_off;
  std::string reason(content.substr(0, head.reason_bytes));
  content.remove_prefix(head.reason_bytes);
  if (head.recorder_bytes > content.size()) return cut_off;
  Result<Snapshot> snapshot = read(content.substr(0, head.recorder_bytes));
  content.remove_prefix(head.recorder_bytes);
  if (!snapshot.ok()) return snapshot;
  std::replace_if(
      reason.begin(), reason.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  snapshot.value().failure = {std::move(reason), head.at_ns, head.wall_s};
  return snapshot;
}

}  // namespace

Status append_record(const std::string& path, const FailureRecord& failure, std::string_view file) {
  constexpr mode_t kMode = 0644;
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!fd.valid()) return errno_status("open");
  return append(fd.get(), failure, file);
}

Status append_private_record(const std::string& path, const FailureRecord& failure,
                             std::string_view file) {
  constexpr mode_t kFolderMode = 0700, kMode = 0600;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) return errno_status("mkdir");
  const Fd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) return errno_status("the folder cannot be opened");
  if (Status status = check_private_directory(opened.get()); !status.ok()) {
    return Status(status.code(), "the folder " + std::string(status.message()));
  }
  const std::string name = path.substr(folder.size() + 1);
  const Fd fd(openat(opened.get(), name.c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return errno_status("open");
  remove_oldest(opened.get());
  return append(fd.get(), failure, file);
}

Recorders read_records(std::string_view content) {
  Recorders found;
  while (!content.empty() && found.refused.empty()) {
    Result<Snapshot> snapshot = take_record(content);
    if (snapshot.ok()) {
      found.snapshots.push_back(std::move(snapshot).value());
    } else {
      found.refused.push_back(snapshot.status());
    }
  }
  return found;
}

Result<Recorders> read_record_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return errno_status("cannot open '" + path + "'");
  std::string content;
  std::array<char, 64 << 10> buffer;
  for (ssize_t count = 1; count != 0;) {
    count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno != EINTR) return errno_status("cannot read '" + path + "'");
    if (count > 0) content.append(buffer.data(), static_cast<size_t>(count));
  }
  Recorders found = read_records(content);
  for (Status& status : found.refused) {
    status = Status(status.code(), "'" + path + "': " + std::string(status.message()));
  }
  return found;
}

}  // namespace tutti::trace
