#include "src/bootstrap/launch/local_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "src/base/private_file.h"
#include "src/base/words.h"
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

/// Made if it is not there; another job's end may remove it at any time.
Result<Fd> make_folder(const std::string& path) {
  constexpr int kAttempts = 16;
  constexpr const char* kRemedy =
      "; set XDG_RUNTIME_DIR on every rank to a folder with mode 0700 in which this user can make "
      "files";
  const auto refuse = [&](const char* what) {
    const Status status = errno_status(std::string(what) + " '" + path + "'");
    return Status(status.code(), std::string(status.message()) + kRemedy);
  };
  for (int attempt = 1;; ++attempt) {
    if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return refuse("cannot make the folder");
    }
    Result<Fd> opened = open_folder(path);
    if (!opened.ok() && opened.status().code() == Code::kSystemError && attempt < kAttempts) {
      continue;
    }
    if (opened.ok() && faccessat(opened.value().get(), ".", W_OK, AT_EACCESS) != 0) {
      return refuse("cannot make files in the folder");
    }
    return opened;
  }
}

enum class FileState { kNothing, kLeftover, kAlive };

/// Opens what lies there, and asks its lock whether the maker lives.
Result<FileState> look(int folder, const std::string& name, Fd& file) {
  file.reset(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return FileState::kNothing;
    return errno_status("cannot be opened");
  }
  if (Status status = check_private(file.get()); !status.ok()) return status;
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return FileState::kLeftover;
  return errno == EWOULDBLOCK ? Result<FileState>(FileState::kAlive)
                              : errno_status("cannot be locked");
}

Result<std::vector<std::string>> names_in(int folder, const std::string& prefix) {
  struct Close {
    void operator()(DIR* entries) const { closedir(entries); }
  };
  Fd again(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, Close> entries(again.valid() ? fdopendir(again.get()) : nullptr);
  if (entries == nullptr) return errno_status("cannot be read");
  (void)again.release();  // it is closed with the entries
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries.get())) {
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  }
  return names;
}

/// A new file, locked, complete, and not yet visible under its own name.
Result<KeptFd> write_hidden(int folder, const std::string& hidden, std::string_view bytes) {
  KeptFd file = KeptFd::open([&] {
    return openat(folder, hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  kFileMode);
  });
  if (!file.valid()) return errno_status("cannot be made");
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno_status("cannot be locked");
  const ssize_t count = write_quietly(file.get(), bytes);
  if (count == static_cast<ssize_t>(bytes.size())) return file;
  const Status status = errno_status("cannot be written");
  unlinkat(folder, hidden.c_str(), 0);
  return status;
}

Result<std::string> read_whole(int file) {
  constexpr size_t kMostBytes = 4096;
  std::string content(kMostBytes + 1, '\0');
  const ssize_t count = pread(file, content.data(), content.size(), 0);
  if (count < 0) return errno_status("cannot be read");
  if (static_cast<size_t>(count) > kMostBytes) {
    return Status::invalid_argument("is larger than it should be");
  }
  content.resize(static_cast<size_t>(count));
  return content;
}

std::string new_name(const std::string& prefix) {
  std::array<char, 8> chance{};
  randombytes_buf(chance.data(), chance.size());
  return prefix + to_hex({chance.data(), chance.size()});
}

Status remove_leftovers(int folder, const std::string& path, const std::string& prefix) {
  const Result<std::vector<std::string>> names = names_in(folder, prefix);
  if (!names.ok()) return about(path, names.status());
  for (const std::string& name : names.value()) {
    Fd file;
    const Result<FileState> state = look(folder, name, file);
    if (!state.ok()) return about(path + "/" + name, state.status());
    if (state.value() == FileState::kLeftover) unlinkat(folder, name.c_str(), 0);
  }
  return {};
}

}  // namespace

LocalFile::LocalFile(Fd folder, KeptFd file, std::string path, std::string name)
    : folder_(std::move(folder)),
      file_(std::move(file)),
      folder_path_(std::move(path)),
      name_(std::move(name)) {}

LocalFile::~LocalFile() {
  if (!file_.valid()) return;
  unlinkat(folder_.get(), name_.c_str(), 0);
  leave(folder_path_);
}

std::string LocalFile::folder(const Variables& variables) {
  const auto runtime = variables.find("XDG_RUNTIME_DIR");
  if (runtime != variables.end() && open_folder(runtime->second).ok()) {
    return runtime->second + "/tutti";
  }
  return "/tmp/tutti-" + std::to_string(geteuid());
}

Result<LocalFile> LocalFile::post(const std::string& folder, const std::string& prefix,
                                  std::string_view bytes) {
  constexpr int kAttempts = 16;  // another job's end may remove the folder in between
  const std::string name = new_name(prefix), path = folder + "/" + name;
  Status refusal;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<Fd> opened = make_folder(folder);
    if (!opened.ok()) return opened.status();
    const int at = opened.value().get();
    if (Status status = remove_leftovers(at, folder, prefix); !status.ok()) return status;
    const std::string hidden = "." + name;
    Result<KeptFd> file = write_hidden(at, hidden, bytes);
    if (file.ok() && renameat(at, hidden.c_str(), at, name.c_str()) == 0) {
      return LocalFile(std::move(opened).value(), std::move(file).value(), folder, name);
    }
    refusal = file.ok() ? errno_status("cannot be renamed") : file.status();
  }
  return about(path, refusal);
}

Result<LocalFile::Found> LocalFile::find(const std::string& folder, const std::string& prefix) {
  const Result<Fd> opened = make_folder(folder);
  if (!opened.ok()) return opened.status();
  const int at = opened.value().get();
  const Result<std::vector<std::string>> names = names_in(at, prefix);
  if (!names.ok()) return about(folder, names.status());
  Found found;
  for (const std::string& name : names.value()) {
    Fd file;
    const Result<FileState> state = look(at, name, file);
    if (!state.ok()) return about(folder + "/" + name, state.status());
    if (state.value() == FileState::kLeftover) found.leftovers = true;
    if (state.value() != FileState::kAlive) continue;
    Result<std::string> content = read_whole(file.get());
    if (!content.ok()) return about(folder + "/" + name, content.status());
    found.posted.push_back({name, std::move(content).value()});
  }
  return found;
}

Result<bool> LocalFile::remove(const std::string& folder, const std::string& name) {
  if (unlink((folder + "/" + name).c_str()) == 0) return true;
  return errno == ENOENT ? Result<bool>(false)
                         : about(folder + "/" + name, errno_status("cannot be removed"));
}

void LocalFile::sweep(const std::string& folder, const std::string& prefix) {
  const Result<Fd> opened = open_folder(folder);
  if (opened.ok()) (void)remove_leftovers(opened.value().get(), folder, prefix);
}

bool LocalFile::posted() const {
  return faccessat(folder_.get(), name_.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<bool> LocalFile::rename(const std::string& prefix) {
  const std::string name = new_name(prefix);
  if (renameat(folder_.get(), name_.c_str(), folder_.get(), name.c_str()) != 0) {
    return errno == ENOENT ? Result<bool>(false)
                           : about(folder_path_ + "/" + name_, errno_status("cannot be renamed"));
  }
  name_ = name;
  return true;
}

void LocalFile::leave(const std::string& folder) {
  rmdir(folder.c_str());  // fails where something lies there
}

}  // namespace tutti::bootstrap
