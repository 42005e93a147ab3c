#include "src/runtime/offload/spill_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>

#include "src/runtime/refuse.h"

namespace tutti::runtime::offload {
namespace {

constexpr int64_t kPage = 4096;
int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

int nameless_file(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  // A file system that knows no files without a name: one whose name goes at once.
  std::string name = folder + "/tutti_offload_XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

SpillFile::SpillFile(const std::string& folder) : folder_(folder), fd_(nameless_file(folder)) {
  if (fd_ < 0) {
    infeasible("no file can be made in ", folder, ": ",
               std::string_view(std::generic_category().message(errno)));
  }
  free_[0] = std::numeric_limits<int64_t>::max();
}
SpillFile::~SpillFile() { close(fd_); }

int64_t SpillFile::take(int64_t bytes) {
  bytes = whole_pages(bytes);
  auto found = free_.begin();
  while (found->second < bytes) ++found;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > bytes) free_[offset + bytes] = room - bytes;
  return offset;
}

void SpillFile::give_back(int64_t offset, int64_t bytes) {
  auto place = free_.emplace(offset, whole_pages(bytes)).first;
  if (place != free_.begin()) {
    const auto before = std::prev(place);
    if (before->first + before->second == offset) {
      before->second += place->second;
      free_.erase(place);
      place = before;
    }
  }
  const auto next = std::next(place);
  if (next == free_.end() || place->first + place->second != next->first) return;
  // The part without an end stays as it is but for where it begins.
  const bool is_last = std::next(next) == free_.end();
  place->second = is_last ? std::numeric_limits<int64_t>::max() : place->second + next->second;
  free_.erase(next);
  // Room that nobody needs any more leaves the disk; a failure costs nothing but room.
  if (is_last) [[maybe_unused]]
    const int ignored = ftruncate(fd_, place->first);
}

uint64_t checksum_of(const void* data, int64_t bytes) {
  constexpr int kLanes = 4;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  std::array<uint64_t, kLanes> sums = {1, 2, 3, 4};
  const auto* next = static_cast<const char*>(data);
  const auto mix = [](uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * kFactor;
    return sum ^ (sum >> 32);
  };
  int64_t left = bytes;
  for (; left >= kLanes * 8; left -= kLanes * 8, next += kLanes * 8) {
    std::array<uint64_t, kLanes> words{};
    std::memcpy(words.data(), next, sizeof words);
    for (size_t l = 0; l < kLanes; ++l) sums[l] = mix(sums[l], words[l]);
  }
  for (; left > 0; --left, ++next) sums[0] = mix(sums[0], static_cast<unsigned char>(*next));
  uint64_t sum = static_cast<uint64_t>(bytes);
  for (const uint64_t lane : sums) sum = mix(sum, lane);
  return sum;
}

}  // namespace tutti::runtime::offload
