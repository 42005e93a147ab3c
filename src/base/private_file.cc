#include "src/base/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "src/base/io.h"

namespace tutti {
namespace {

Status check_owner(const struct stat& file, bool root_too) {
  if (file.st_uid == geteuid() || (root_too && file.st_uid == 0)) return {};
  return Status::invalid_argument("belongs to user " + std::to_string(file.st_uid) +
                                  ", not to this process's user " + std::to_string(geteuid()));
}

Status check_mode(const struct stat& file, const char* remedy) {
  if ((file.st_mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return Status::invalid_argument(std::string("may be opened by others; run chmod ") + remedy +
                                  " on it");
}

}  // namespace

Status check_private(int fd) {
  struct stat file {};
  if (fstat(fd, &file) < 0) return errno_status("cannot be examined: fstat");
  if (!S_ISREG(file.st_mode)) return Status::invalid_argument("is no regular file");
  if (Status status = check_owner(file, true); !status.ok()) return status;
  return check_mode(file, "600");
}

Status check_private_directory(int fd) {
  struct stat file {};
  if (fstat(fd, &file) < 0) return errno_status("cannot be examined: fstat");
  if (!S_ISDIR(file.st_mode)) return Status::invalid_argument("is no directory");
  if (Status status = check_owner(file, false); !status.ok()) return status;
  return check_mode(file, "700");
}

}  // namespace tutti
