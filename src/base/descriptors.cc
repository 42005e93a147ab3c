#include "src/base/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace tutti {
namespace {

/// To look takes one, so where none is left all are open; 0 where /proc does not say.
/// (std::filesystem would end the process where memory is out.)
uint64_t open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return errno == EMFILE ? descriptor_limits().soft : 0;
  uint64_t entries = 0;
  while (readdir(folder.get()) != nullptr) ++entries;
  constexpr uint64_t kOthers = 2;  // "." and ".."
  return entries - std::min(entries, kOthers);
}

}  // namespace

DescriptorLimits descriptor_limits() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return {limit.rlim_cur, limit.rlim_max};
}

bool raise_descriptor_limit(uint64_t wanted) {
  const DescriptorLimits now = descriptor_limits();
  if (now.soft >= wanted) return true;
  const uint64_t target = std::min(now.hard, std::max(wanted, kRaisedTo));
  const rlimit raised{target, now.hard};
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 && target >= wanted;
}

bool DescriptorRoom::make_room(uint64_t wanted) {
  const DescriptorLimits before = descriptor_limits();
  if (wanted <= before.soft) return true;
  const bool enough = raise_descriptor_limit(wanted);
  const DescriptorLimits after = descriptor_limits();
  if (after.soft > before.soft && !said_) {
    said_ = true;
    log_.info(
        "the soft limit of open descriptors (ulimit -n) is {} now and was {}: communicators need "
        "about {}; a program that uses select() keeps its own descriptors below 1024",
        after.soft, before.soft, wanted);
  }
  return enough;
}

DescriptorRoom::Claim::Claim(DescriptorRoom& room, uint64_t descriptors) : room_(room) {
  add(descriptors);
}

void DescriptorRoom::Claim::add(uint64_t descriptors) {
  const MutexLock lock(room_.mutex_);
  const uint64_t open = open_descriptors();
  if (room_.claimed_ == 0) room_.open_before_ = open;
  descriptors_ += descriptors;
  room_.claimed_ += descriptors;
  // Of what is claimed some is open already.
  const uint64_t wanted = std::max(room_.open_before_ + room_.claimed_, open + descriptors);
  if (room_.make_room(wanted)) return;
  shortage_ = "the communicators of this process need up to " + std::to_string(wanted) +
              " descriptors, and the hard limit is " + std::to_string(descriptor_limits().hard) +
              ": raise it (ulimit -Hn)";
}

Status DescriptorRoom::Claim::explain(Status error) const {
  if (error.code() != Code::kSystemError || shortage_.empty()) return error;
  return Status::system_error(std::string(error.message()) + "; " + shortage_);
}

DescriptorRoom::Claim::~Claim() {
  const MutexLock lock(room_.mutex_);
  room_.claimed_ -= descriptors_;
  // Its own descriptors are open now, beside those that the other claims have yet to open.
  if (room_.claimed_ > 0) room_.open_before_ += descriptors_;
}

}  // namespace tutti
