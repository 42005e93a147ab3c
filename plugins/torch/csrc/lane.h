// A communicator with the calls that wait for it. Calls run one after the other, in the order in
// which they came: in the thread that asks, where it waits anyway and nothing is before it, else in
// the lane's own thread.
//
// Owns: the communicator and the thread. Threads: any, at any time; nobody holds a lock while a
// call runs or while callbacks of futures do. A callback runs in the lane's thread and may call on
// the same lane: what it waits for is then run by it. Errors: as each call's. In a forked child a
// lane runs nothing, and its end leaves the parent's alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "communicator.h"
#include "work.h"

namespace tutti_torch {

class Lane : public std::enable_shared_from_this<Lane> {
 public:
  using WorkPtr = c10::intrusive_ptr<WorkTutti>;
  /// Told of each call that ended, with its error or null, before those who wait for it.
  using Observer = std::function<void(WorkTutti&, const std::exception_ptr&)>;

  Lane(Place place, Observer observer);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  /// Behind everything else.
  void submit(WorkPtr work);
  /// The same, and waits until it has run; its error is the work's.
  void run(const WorkPtr& work);
  /// In the lane's own thread: runs what is queued until the work is done. Elsewhere: nothing.
  void help(WorkTutti& work);
  /// Before a wait returns to the caller: return_to_interpreter(), but in the lane's own thread,
  /// which others join.
  void go_back() const;

  Communicator& communicator() { return communicator_; }
  /// Does something with the communicator in the calling thread, while no call runs and none is
  /// queued; false if that is not so within the time.
  bool exclusively(std::chrono::milliseconds timeout,
                   const std::function<void(Communicator&)>& work);
  /// Ends what is in flight, and all later calls, with an error.
  void abort();
  /// The same until the communicator is edited.
  void revoke() { communicator_.revoke(); }
  /// Waits for what is queued, then leaves the communicator in good order and ends the thread.
  void shutdown();
  /// Aborts, then ends the thread. A lane whose thread was not ended stays for as long as it runs.
  void abandon();
  void observe(WorkTutti& work, const std::exception_ptr& error);

 private:
  bool in_own_thread() const;
  void start_thread();  // with mutex_ held
  void loop();
  void run_next(std::unique_lock<std::mutex>& lock);
  void execute(const WorkPtr& work, std::unique_lock<std::mutex>& lock);
  void check_process() const;
  void stop();

  Communicator communicator_;
  const Observer observer_;
  const int pid_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPtr> queue_;
  bool busy_ = false;  // somebody runs a call
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tutti_torch
