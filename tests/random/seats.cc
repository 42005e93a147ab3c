#include "tests/random/seats.h"

#include <algorithm>
#include <iterator>

#include "tests/random/device_mirror.h"
#include "tests/random/issue.h"
#include "tests/support/team_rank.h"

namespace tutti::random_calls {
namespace {

/// NULL if nothing is said.
class Config {
 public:
  explicit Config(Mode mode) : said_(mode != Mode::kUnsaid) {
    config_.blocking = mode == Mode::kNotBlocking ? 0 : 1;
  }
  const tuttiConfig_t* get() const { return said_ ? &config_ : nullptr; }

 private:
  bool said_;
  tuttiConfig_t config_ = TUTTI_CONFIG_INITIALIZER;
};

}  // namespace

Seats::~Seats() {
  abandon();
  for (void* memory : allocated_) tuttiMemFree(memory);
}

void Seats::abandon() {
  for (auto& [number, seat] : seats_) {
    if (seat.comm == nullptr) continue;
    // Operations in flight use the seat's memory until the abort is over.
    if (tuttiCommAbort(seat.comm) == tuttiInProgress) testing_support::await_settled(seat.comm);
  }
  seats_.clear();
}

Seat* Seats::find(uint32_t communicator) {
  const auto found = seats_.find(communicator);
  return found == seats_.end() ? nullptr : &found->second;
}

bool Seats::open() {
  if (job_.has_regions && !(allocate(regions_.send) && allocate(regions_.recv))) return false;
  tuttiUniqueId id;
  if (!member_.take_id(id)) return false;
  tuttiComm_t comm = nullptr;
  const Config config(job_.communicators[0].mode);
  const tuttiResult_t made =
      tuttiCommInitRankConfig(&comm, member_.ranks(), id, member_.rank(), config.get());
  const bool blocking = is_blocking(0, nullptr);
  return over(made, "tuttiCommInitRank", comm, blocking) && take(0, comm, blocking);
}

bool Seats::allocate(Region& region) {
  void* memory = nullptr;
  if (!ok(tuttiMemAlloc(&memory, kRegionBytes), "tuttiMemAlloc", nullptr)) return false;
  allocated_.push_back(memory);
  bring(memory, kRegionBytes);
  region = Region(static_cast<std::byte*>(memory), kRegionBytes);
  return true;
}

bool Seats::apply(const Change& change) {
  if (change.made.empty()) return end(change.from);
  switch (change.origin) {
    case Origin::kId:
      return by_ids(change);
    case Origin::kAll:
      return by_one_thread(change);
    case Origin::kSplit:
      return split(change);
    case Origin::kShrink:
      return shrink(change);
    case Origin::kGrow:
      return grow(change);
  }
  return false;
}

// Over the first communicator.
bool Seats::tell(tuttiUniqueId& id, int root) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollBroadcast;
  call.send = call.recv = &id;
  call.count = sizeof id;
  call.type = tuttiUint8;
  call.root = root;
  tuttiComm_t comm = find(0)->comm;
  return ok(run_plainly(call, comm), "broadcast", comm);
}

bool Seats::by_ids(const Change& change) {
  const Communicator& made = job_.communicators[change.made[0]];
  std::vector<tuttiUniqueId> ids(static_cast<size_t>(change.ids));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int maker = made.members[i];
    if (member_.rank() == maker && !ok(tuttiGetUniqueId(&ids[i]), "tuttiGetUniqueId", nullptr)) {
      return false;
    }
    if (!tell(ids[i], maker)) return false;
  }
  const int rank = made.rank_of(member_.rank());
  if (rank < 0) return true;
  tuttiComm_t comm = nullptr;
  const Config config(made.mode);
  const tuttiResult_t done =
      change.ids == 1 ? tuttiCommInitRankConfig(&comm, made.ranks(), ids[0], rank, config.get())
                      : tuttiCommInitRankScalable(&comm, made.ranks(), rank, change.ids, ids.data(),
                                                  config.get());
  const bool blocking = is_blocking(change.made[0], nullptr);
  return over(done, "tuttiCommInitRank", comm, blocking) && take(change.made[0], comm, blocking);
}

// The ranks are threads: handles go from one to the other as numbers.
bool Seats::by_one_thread(const Change& change) {
  const Communicator& made = job_.communicators[change.made[0]];
  auto& handles = member_.board().numbers;
  if (member_.rank() == 0) {
    std::vector<tuttiComm_t> comms(made.members.size());
    std::vector<int> devices;  // those of the threads that will drive the ranks
    for (const int member : made.members) {
      if (job_.devices) devices.push_back(DeviceMirror::device_of(member));
    }
    const tuttiResult_t done =
        tuttiCommInitAll(comms.data(), made.ranks(), devices.empty() ? nullptr : devices.data());
    if (!ok(done, "tuttiCommInitAll", nullptr)) return false;
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      handles[made.members[rank]].store(reinterpret_cast<uintptr_t>(comms[rank]));
    }
  }
  if (!member_.meet()) return false;
  const uint64_t mine = handles[member_.rank()].load();
  return member_.meet() && take(change.made[0], reinterpret_cast<tuttiComm_t>(mine), true);
}

bool Seats::split(const Change& change) {
  const Seat* seat = find(change.from);
  if (seat == nullptr) return true;
  const auto mine = std::ranges::find_if(change.made, [&](uint32_t made) {
    return job_.communicators[made].rank_of(member_.rank()) >= 0;
  });
  const bool chosen = mine != change.made.end();
  const int color = chosen ? static_cast<int>(*mine) : TUTTI_SPLIT_NOCOLOR;
  const int key = change.keys[static_cast<size_t>(seat->rank)];
  tuttiComm_t comm = nullptr;
  const Config config(chosen ? job_.communicators[*mine].mode : Mode::kUnsaid);
  const tuttiResult_t done = library_.split(seat->comm, color, key, &comm, config.get());
  if (!over(done, "tuttiCommSplit", chosen ? comm : seat->comm, seat->blocking)) return false;
  if (chosen) return take(*mine, comm, is_blocking(*mine, seat));
  return comm == nullptr || verdict_.wrong("a communicator without a colour");
}

// An excluded rank waits, too: it must not come to the others' meeting with a next split or shrink.
bool Seats::shrink(const Change& change) {
  const Seat* seat = find(change.from);
  if (seat == nullptr) return true;
  const std::vector<int>& before = job_.communicators[change.from].members;
  const Communicator& made = job_.communicators[change.made[0]];
  std::vector<int> excluded;
  for (size_t rank = 0; rank < before.size(); ++rank) {
    if (made.rank_of(before[rank]) < 0) excluded.push_back(static_cast<int>(rank));
  }
  if (made.rank_of(member_.rank()) >= 0) {
    tuttiComm_t comm = nullptr;
    const Config config(made.mode);
    const tuttiResult_t done =
        tuttiCommShrink(seat->comm, excluded.data(), static_cast<int>(excluded.size()), &comm,
                        config.get(), TUTTI_SHRINK_DEFAULT);
    if (!over(done, "tuttiCommShrink", comm, seat->blocking)) return false;
    if (!take(change.made[0], comm, is_blocking(change.made[0], seat))) return false;
  }
  const tuttiCall_t barrier = TUTTI_CALL_INITIALIZER;
  return ok(run_plainly(barrier, seat->comm), "barrier", seat->comm);
}

// All ranks hear the id; of those of the old communicator every other one passes it.
bool Seats::grow(const Change& change) {
  const Seat* seat = find(change.from);
  const Communicator& made = job_.communicators[change.made[0]];
  const int maker = job_.communicators[change.from].members[0];
  tuttiUniqueId id{};
  if (member_.rank() == maker &&
      !ok(tuttiCommGetUniqueId(seat->comm, &id), "tuttiCommGetUniqueId", seat->comm)) {
    return false;
  }
  if (!tell(id, maker)) return false;
  const int rank = made.rank_of(member_.rank());
  if (rank < 0) return true;
  tuttiComm_t comm = nullptr;
  tuttiResult_t done = tuttiSuccess;
  const Config config(made.mode);
  if (seat == nullptr) {
    done = tuttiCommGrow(nullptr, made.ranks(), &id, rank, &comm, config.get());
  } else {
    const tuttiUniqueId* passed = seat->rank % 2 == 0 ? &id : nullptr;
    done = tuttiCommGrow(seat->comm, made.ranks(), passed, -1, &comm, config.get());
  }
  const bool blocking = is_blocking(change.made[0], seat);
  return over(done, "tuttiCommGrow", comm, blocking) && take(change.made[0], comm, blocking);
}

bool Seats::is_blocking(uint32_t communicator, const Seat* from) const {
  const Mode mode = job_.communicators[communicator].mode;
  if (mode == Mode::kUnsaid) return from == nullptr || from->blocking;
  return mode == Mode::kBlocking;
}

bool Seats::over(tuttiResult_t result, const char* what, tuttiComm_t comm, bool blocking) const {
  if (blocking) return ok(result, what, nullptr);
  return ok(result == tuttiInProgress ? testing_support::await_settled(comm) : result, what, comm);
}

// Looks whether it is the one that was asked for, and gives it what its ranks share.
bool Seats::take(uint32_t number, tuttiComm_t comm, bool blocking) {
  const Communicator& wanted = job_.communicators[number];
  Seat& seat = seats_[number];
  seat.comm = comm;
  seat.rank = wanted.rank_of(member_.rank());
  seat.blocking = blocking;
  int ranks = -1, rank = -1;
  if (!ok(tuttiCommCount(comm, &ranks), "tuttiCommCount", comm)) return false;
  if (!ok(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank", comm)) return false;
  if (ranks != wanted.ranks() || rank != seat.rank) {
    return verdict_.wrong("a communicator has rank " + std::to_string(rank) + " of " +
                          std::to_string(ranks) + " instead of " + std::to_string(seat.rank) +
                          " of " + std::to_string(wanted.ranks()));
  }
  if (wanted.registered && !enroll(seat)) return false;
  const OneSided::Place place{number, seat.rank, comm};
  seat.one_sided = std::make_unique<OneSided>(job_, place, library_, verdict_);
  return seat.one_sided->open();
}

bool Seats::enroll(Seat& seat) const {
  for (const auto& [memory, bytes] : brought_) {
    void*& handle = seat.registrations.emplace_back();
    const tuttiResult_t done = tuttiCommRegister(seat.comm, memory, bytes, &handle);
    if (!ok(done, "tuttiCommRegister", seat.comm)) return false;
  }
  return true;
}

bool Seats::strike(Seat& seat) const {
  for (void* handle : seat.registrations) {
    const tuttiResult_t done = tuttiCommDeregister(seat.comm, handle);
    if (!ok(done, "tuttiCommDeregister", seat.comm)) return false;
  }
  seat.registrations.clear();
  return true;
}

// In one order on all ranks: to register waits for the others.
bool Seats::renew() {
  return std::ranges::all_of(seats_, [&](auto& entry) {
    return !job_.communicators[entry.first].registered ||
           (strike(entry.second) && enroll(entry.second));
  });
}

// A rank of the job that is not in it waits, too, where the others must: until no rank is in a call
// of it.
bool Seats::end(uint32_t communicator) {
  const Ending how = job_.communicators[communicator].ending;
  const bool breaks_off = how == Ending::kRevoke || how == Ending::kAbort;
  const auto found = seats_.find(communicator);
  if (found == seats_.end()) return !breaks_off || member_.meet();
  Seat& seat = found->second;
  if (!seat.one_sided->close()) return false;
  if (!strike(seat)) return false;
  if (breaks_off && !member_.meet()) return false;
  if (!leave(how, seat)) return false;
  seats_.erase(found);
  return true;
}

bool Seats::leave(Ending how, const Seat& seat) {
  tuttiComm_t comm = seat.comm;
  if (how == Ending::kFinalize) {
    const tuttiResult_t done = tuttiCommFinalize(comm);
    if (!over(done, "tuttiCommFinalize", comm, seat.blocking)) return false;
  }
  if (how == Ending::kRevoke) {
    const tuttiResult_t done = tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT);
    if (!ok(done, "tuttiCommRevoke", comm)) return false;
  }
  const bool aborts = how == Ending::kAbort;
  const tuttiResult_t done = aborts ? tuttiCommAbort(comm) : tuttiCommDestroy(comm);
  return over(done, aborts ? "tuttiCommAbort" : "tuttiCommDestroy", comm, seat.blocking);
}

// The first one sometimes before those that were made from it.
bool Seats::close() {
  const auto count = static_cast<uint32_t>(job_.communicators.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (!end(job_.number % 2 == 0 ? i : count - 1 - i)) return false;
  }
  return true;
}

}  // namespace tutti::random_calls
