#include "src/base/processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "src/base/control_groups.h"
#include "src/base/words.h"

namespace tutti {
namespace {

constexpr uint32_t kMostProcessors = 1 << 16;

std::vector<uint32_t> affinity() {
  std::vector<uint32_t> numbers;
  // The kernel may know more processors than a cpu_set_t has room for.
  for (size_t room = CPU_SETSIZE; room <= kMostProcessors; room *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(room),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(room);
    if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (uint32_t i = 0; i < room; ++i) {
      if (CPU_ISSET_S(i, bytes, set.get())) numbers.push_back(i);
    }
    return numbers;
  }
  for (uint32_t i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    numbers.push_back(i);
  }
  return numbers;
}

/// In per cent of a processor; 0: no quota, or no such group. Of version 2 "150000 100000" in
/// cpu.max, of version 1 two files.
uint32_t quota_at(const std::string& folder) {
  std::string quota, period;
  std::ifstream(folder + "/cpu.max") >> quota >> period;
  if (quota.empty()) std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  if (period.empty()) std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  const auto allowed = parse_integer<uint64_t>(quota);  // "max" and -1: as much as there is
  const auto of = parse_integer<uint64_t>(period);
  if (!allowed || !of || *of == 0) return 0;
  constexpr uint64_t kMost = 100 * uint64_t{kMostProcessors};
  return static_cast<uint32_t>(std::clamp<uint64_t>(*allowed * 100 / *of, 1, kMost));
}

}  // namespace

void find_quota(std::istream& groups, const std::string& mounts, Processors& found) {
  for (const std::string& folder : group_folders(groups, mounts, "cpu")) {
    const uint32_t quota = quota_at(folder);
    struct stat entry {};
    if (quota == 0 || stat(folder.c_str(), &entry) != 0) continue;
    if (found.quota_percent != 0 && found.quota_percent <= quota) continue;
    found.quota_percent = quota;
    found.group = fmt::format("{}:{}", entry.st_dev, entry.st_ino);
  }
}

Processors own_processors() {
  Processors found;
  found.numbers = affinity();
  std::ifstream groups("/proc/self/cgroup");
  find_quota(groups, "/sys/fs/cgroup", found);
  return found;
}

std::string to_text(const Processors& processors) {
  std::string text;
  const std::vector<uint32_t>& numbers = processors.numbers;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return fmt::format("{} {} {}", text, processors.quota_percent, processors.group);
}

std::optional<Processors> read_processors(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  Processors read;
  if (words.size() != 3) return std::nullopt;
  for (const std::string_view range : split(words[0], ',')) {
    const std::vector<std::string_view> ends = split(range, '-');
    const auto first = parse_integer<uint32_t>(ends.front());
    const auto last = parse_integer<uint32_t>(ends.back());
    const bool rises = read.numbers.empty() || (first && *first > read.numbers.back());
    if (!first || !last || ends.size() > 2 || !rises || *last < *first ||
        *last >= kMostProcessors) {
      return std::nullopt;
    }
    for (uint32_t number = *first; number <= *last; ++number) read.numbers.push_back(number);
  }
  const auto quota = parse_integer<uint32_t>(words[1]);
  if (!quota) return std::nullopt;
  read.quota_percent = *quota;
  read.group = words[2];
  return read;
}

int count_together(std::span<const Processors> processes) {
  std::set<uint32_t> numbers;
  std::map<std::string_view, uint64_t> quotas;
  bool all_have_quotas = true;
  for (const Processors& one : processes) {
    numbers.insert(one.numbers.begin(), one.numbers.end());
    if (one.quota_percent == 0) all_have_quotas = false;
    quotas[one.group] = one.quota_percent;
  }
  uint64_t count = numbers.size();
  if (all_have_quotas) {
    uint64_t percent = 0;
    for (const auto& [group, quota] : quotas) percent += quota;
    count = std::min(count, percent / 100);
  }
  return static_cast<int>(std::max<uint64_t>(count, 1));
}

}  // namespace tutti
