// One rank's communicators: begun and ended as the job says, and what the rank has for each.
//
// Owns: the communicators, and what the rank has allocated for buffers and windows. abandon() comes
// before the end of the rank's streams, if close() did not. Threads: the rank's.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tests/random/job.h"
#include "tests/random/library.h"
#include "tests/random/memory.h"
#include "tests/random/one_sided.h"
#include "tests/random/verdict.h"

namespace tutti::random_calls {

/// A rank's place in a communicator.
struct Seat {
  tuttiComm_t comm = nullptr;
  int rank = 0;
  std::unique_ptr<OneSided> one_sided;
  std::vector<void*> registrations;
  bool blocking = true;  // are its making and its end
  CallOptions options;   // that functions use now
};

class Seats {
 public:
  Seats(const Job& job, testing_support::Member& member, const Library& library,
        const Verdict& verdict)
      : job_(job), member_(member), library_(library), verdict_(verdict) {}
  ~Seats();
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;

  /// Registered with communicators, as what open() allocates, if there is to be such memory.
  void bring(void* memory, size_t bytes) { brought_.emplace_back(memory, bytes); }
  /// Makes the first one.
  bool open();
  bool apply(const Change& change);
  /// Registers all memory anew, with the communicators that have registered some: between two
  /// batches on all ranks, while peers may still read what the one before has left to them.
  bool renew();
  /// Ends those that are left.
  bool close();
  void abandon();

  /// Null: the rank has none in this communicator.
  Seat* find(uint32_t communicator);
  /// By the numbers of their communicators.
  std::map<uint32_t, Seat>& all() { return seats_; }
  Regions& regions() { return regions_; }

 private:
  bool ok(tuttiResult_t result, const char* what, tuttiComm_t comm) const {
    return verdict_.ok(result, what, comm);
  }
  bool allocate(Region& region);
  bool by_ids(const Change& change);
  bool by_one_thread(const Change& change);
  bool split(const Change& change);
  bool shrink(const Change& change);
  bool grow(const Change& change);
  bool tell(tuttiUniqueId& id, int root);
  /// Of making `communicator` from `from`, which may be null.
  bool is_blocking(uint32_t communicator, const Seat* from) const;
  /// `result` is of a call that made or ends `comm`; waits until it is over.
  bool over(tuttiResult_t result, const char* what, tuttiComm_t comm, bool blocking) const;
  bool take(uint32_t communicator, tuttiComm_t comm, bool blocking);
  bool enroll(Seat& seat) const;
  bool strike(Seat& seat) const;
  bool end(uint32_t communicator);
  bool leave(Ending how, const Seat& seat);

  const Job& job_;
  testing_support::Member& member_;
  const Library& library_;
  const Verdict& verdict_;
  std::vector<void*> allocated_;
  std::vector<std::pair<void*, size_t>> brought_;  // allocated_ among them
  Regions regions_;
  std::map<uint32_t, Seat> seats_;
};

}  // namespace tutti::random_calls
