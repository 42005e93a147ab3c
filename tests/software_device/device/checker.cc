#include "tests/software_device/device/checker.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "tests/software_device/device/settings.h"

namespace softdev {
namespace {

constexpr uint32_t kMaxWords = 4096;
constexpr uint32_t kMaxAccesses = 16384;
constexpr uint32_t kPrintedRaces = 8;

struct Word {
  Place place;
  Clock clock;
};

struct Access {
  uint64_t object;
  uint64_t begin;
  uint64_t end;
  int agent;
  uint32_t time;  // of the agent's own clock
  int writes;
  int process;
};

/// In the file that all ranks map. A fresh file is all zeros.
struct Tables {
  std::atomic<uint32_t> locked;
  std::atomic<uint32_t> agents;
  std::atomic<uint32_t> races;
  std::atomic<uint32_t> overflows;
  uint32_t words;
  uint32_t accesses;
  Word word[kMaxWords];
  Access access[kMaxAccesses];
};

Tables* open_tables() {
  const std::string& path = settings().checker;
  if (path.empty()) return nullptr;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Tables)) != 0) {
    std::perror("SOFTDEV_CHECKER");
    std::abort();
  }
  void* mapped = mmap(nullptr, sizeof(Tables), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) std::abort();
  return static_cast<Tables*>(mapped);
}

Tables* tables() {
  static Tables* const opened = open_tables();
  return opened;
}

/// A lock that processes share.
class Locked {
 public:
  Locked() {
    while (tables()->locked.exchange(1, std::memory_order_acquire) != 0) sched_yield();
  }
  ~Locked() { tables()->locked.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

void say_overflow(const char* table) {
  if (tables()->overflows++ == 0) {
    std::fprintf(stderr,
                 "[software device %d] the checker's table of %s is full: it proves nothing\n",
                 getpid(), table);
  }
}

/// With the lock. Null: there is none and no room.
Word* word_at(Place place, bool make) {
  Tables& all = *tables();
  for (uint32_t i = 0; i < all.words; ++i) {
    Word& word = all.word[i];
    if (word.place.object == place.object && word.place.offset == place.offset) return &word;
  }
  if (!make) return nullptr;
  if (all.words == kMaxWords) {
    say_overflow("words");
    return nullptr;
  }
  Word& word = all.word[all.words++];
  word = {};
  word.place = place;
  return &word;
}

void report(const Access& now, const Access& before) {
  if (tables()->races++ >= kPrintedRaces) return;
  std::fprintf(
      stderr,
      "[software device %d] RACE: stream %d %s bytes [%lu, %lu) of memory %lu, which stream "
      "%d of process %d %s as [%lu, %lu): nothing orders the two\n",
      now.process, now.agent, now.writes ? "writes" : "reads",
      static_cast<unsigned long>(now.begin), static_cast<unsigned long>(now.end),
      static_cast<unsigned long>(now.object), before.agent, before.process,
      before.writes ? "wrote" : "read", static_cast<unsigned long>(before.begin),
      static_cast<unsigned long>(before.end));
}

struct Host {
  std::mutex mutex;
  Clock clock;
};

Host& host() {
  static Host* const process = new Host;
  thread_local Host thread;
  return settings().thread_clocks != 0 ? thread : *process;
}

}  // namespace

void Clock::join(const Clock& other) {
  for (int i = 0; i < kMaxAgents; ++i) of[i] = std::max(of[i], other.of[i]);
}

void Agent::begin(const Clock& seen) {
  if (id_ < 0) {
    id_ = static_cast<int>(tables()->agents++);
    if (id_ >= kMaxAgents) {
      say_overflow("streams");
      id_ = kMaxAgents - 1;
    }
  }
  clock_.join(seen);
  ++clock_.of[id_];
}

Clock Agent::clock_before() const {
  Clock before = clock_;
  --before.of[id_];
  return before;
}

bool checking() { return tables() != nullptr; }

Clock host_clock() {
  const std::lock_guard lock(host().mutex);
  return host().clock;
}

void host_learns(const Clock& clock) {
  const std::lock_guard lock(host().mutex);
  host().clock.join(clock);
}

void publish(Place place, const Clock& clock) {
  const Locked locked;
  if (Word* word = word_at(place, true)) word->clock.join(clock);
}

Clock published(Place place) {
  const Locked locked;
  const Word* word = word_at(place, false);
  return word != nullptr ? word->clock : Clock();
}

void check_access(const Agent& agent, Place place, size_t bytes, bool writes) {
  if (place.object == 0 || bytes == 0) return;
  const Locked locked;
  Tables& all = *tables();
  const Access now{
      place.object, place.offset, place.offset + bytes, agent.id(), agent.clock().of[agent.id()],
      writes,       getpid()};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < all.accesses; ++i) {
    const Access before = all.access[i];
    const bool overlap =
        before.object == now.object && before.begin < now.end && now.begin < before.end;
    const bool known = before.agent == now.agent || before.time <= agent.clock().of[before.agent];
    if (overlap && !known && (before.writes || writes)) report(now, before);
    // An access that this one follows and covers is found by whoever races with this one.
    const bool covered = overlap && known && now.begin <= before.begin && before.end <= now.end;
    if (!(covered && (writes || (before.agent == now.agent && !before.writes)))) {
      all.access[kept++] = before;
    }
  }
  all.accesses = kept;
  if (all.accesses == kMaxAccesses) {
    say_overflow("accesses");
    return;
  }
  all.access[all.accesses++] = now;
}

unsigned races_found() { return checking() ? tables()->races.load() : 0; }
unsigned checker_overflows() { return checking() ? tables()->overflows.load() : 0; }

}  // namespace softdev
