// Processes that this one forks, and how they end together.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tutti::perf {

/// Ranks end together. Seconds that a rank has to end in when another one has: one that has not is
/// named and ended. Time in which the machine stands still does not count.
struct Grace {
  int after_failure = 10;
  int after_end = 60;
};

inline constexpr std::chrono::milliseconds kChildrenPoll{10};

/// How long to wait for the others when one has ended, or more.
class WaitLimit {
 public:
  explicit WaitLimit(const Grace& grace) : grace_(grace) {}

  /// To be asked once in kChildrenPoll.
  bool is_over(bool failed) {
    if (failed != failed_) polls_ = 0;
    failed_ = failed;
    const int seconds = failed ? grace_.after_failure : grace_.after_end;
    return ++polls_ > std::chrono::seconds(seconds) / kChildrenPoll;
  }

 private:
  const Grace grace_;
  int polls_ = 0;
  bool failed_ = false;
};

struct Children {
  int count = 0;
  std::function<int(int number)> run;           // in the child, whose exit status it returns
  std::function<std::string(int number)> name;  // for messages: "rank 3"
  std::function<void()> on_death = [] {};       // called when a signal has ended one
  /// Where it is set, asked over and over; waits for so long itself. true: all of them are killed.
  std::function<bool(std::chrono::milliseconds wait)> is_called_off = {};
  Grace grace = {};
};

/// Forks the children and waits for all of them. Returns the greatest exit status; a child that
/// died of a signal is reported on stderr and counts as 1. One that has not ended when the grace is
/// over is killed. Errors: PerfError. Requires: no other thread exists yet.
int run_children(const Children& children);

}  // namespace tutti::perf
