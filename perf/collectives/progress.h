// A line on the terminal that says how far a run is.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::perf {

/// Writes to stderr, and only if that is a terminal. Lines of a table that go to the same terminal
/// come between clear() and the next show().
class Progress {
 public:
  /// `total` cases; 0: nobody knows. One rank shows it: the others pass false.
  Progress(size_t total, bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "case 3 of 28: 65536 bytes float, in place"
  void show(size_t number, const std::string& what);
  void clear();

 private:
  const size_t total_;
  const bool shown_;
  bool on_screen_ = false;
};

}  // namespace tutti::perf
