// A communicator as Python has it: a handle that is closed at most once, and calls on it.
//
// Threads: as tutti.h says: one thread at a time, but for abort().
// Errors:  throws runtime::Error; a closed communicator is kInvalidInput.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "tutti/tutti.h"

namespace tutti::python {

class Communicator {
 public:
  /// `owned`: close() ends it; else it belongs to somebody else, who must keep it.
  Communicator(uintptr_t handle, bool owned);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  tuttiComm_t handle() const;
  bool open() const { return comm_ != nullptr; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// Rank and ranks, which an edit changes.
  void read_place();
  /// The stream of calls that return at once.
  tuttiStream_t background();

  void close();
  void abort();
  /// Runs work that waits for other ranks; a signal's exception aborts this communicator.
  void run(const std::function<void()>& work);

 private:
  void forget();

  tuttiComm_t comm_ = nullptr;
  bool owned_ = true;
  int rank_ = 0;
  int ranks_ = 0;
  tuttiStream_t background_ = tuttiBlocking();
};

/// Ends what is part of a communicator. One that has been closed must not be touched again, so what
/// outlives it is left to the end of the process.
template <class Part>
void end_part(const Communicator& comm, std::unique_ptr<Part>& part) {
  nanobind::gil_scoped_release released;
  if (!comm.open()) static_cast<void>(part.release());
  part.reset();
}

/// The bytes of an id; refuses others.
tuttiUniqueId id_of(const nanobind::bytes& id);
tuttiConfig_t config_of(const std::string& name, double timeout);
/// Makes a communicator; a signal's exception aborts the making. `call` sets *made at once, so
/// there is something to abort.
uintptr_t make(const std::function<tuttiResult_t(tuttiComm_t* made)>& call);
/// The part about edits (edits.cc).
void add_edits(nanobind::module_& module, nanobind::class_<Communicator>& communicator);
/// The part about memory that is given back for a while (suspension.cc).
void add_suspension(nanobind::class_<Communicator>& communicator);

/// A call with everything that must live until it has completed.
struct Call {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  std::string algorithm, wire;
  bool has_options = false, has_wire = false;
  std::vector<size_t> counts[4];  // sent, their offsets, received, their offsets
  Buffer send, recv;

  void point_to_counts() {
    const auto data = [this](int i) { return counts[i].empty() ? nullptr : counts[i].data(); };
    call.send_counts = data(0);
    call.send_offsets = data(1);
    call.recv_counts = data(2);
    call.recv_offsets = data(3);
  }
  const tuttiOptions_t* options_or_null() {
    options.algorithm = algorithm.empty() ? nullptr : algorithm.c_str();
    options.wire = has_wire ? wire.c_str() : nullptr;
    return has_options ? &options : nullptr;
  }
};

/// A call in the background. One that is forgotten waits for its end, since it uses its buffers.
class Request {
 public:
  Request(nanobind::object communicator, std::unique_ptr<Call> call);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void submit();
  bool done();
  /// False if the call has not completed after that many seconds; negative: without a limit.
  bool wait(double seconds);

 private:
  void finish(tuttiResult_t result);

  nanobind::object owner_;
  Communicator& communicator_;
  std::unique_ptr<Call> call_;
  tuttiRequest_t request_ = nullptr;
};

/// The calls of a `with group():` block of this thread; null outside of one.
class Group;
Group*& current_group();
void collect(Group& group, nanobind::object communicator, std::unique_ptr<Call> call);

}  // namespace tutti::python
