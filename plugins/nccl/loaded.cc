// Tells `tutti run` that the program it started has loaded this library.
//
// `tutti run` leaves the end of a pipe open for the program and its number and inode in the
// environment; one byte is the answer. The inode is compared, because a number alone may mean
// another file by now. Runs before main, in the program and in whatever it starts, so it does
// nothing else. tools/cli/run.cc is the other side.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

[[gnu::constructor]] void report_loaded() {
  const char* text = std::getenv("_TUTTI_RUN_PIPE");
  int pipe = -1;
  unsigned long inode = 0;
  if (text == nullptr || std::sscanf(text, "%d:%lu", &pipe, &inode) != 2) return;
  struct stat found = {};
  if (fstat(pipe, &found) != 0 || !S_ISFIFO(found.st_mode) || found.st_ino != inode) return;
  const char loaded = 'L';
  const ssize_t written = write(pipe, &loaded, 1);
  (void)written;  // nobody listens any more
  close(pipe);
  unsetenv("_TUTTI_RUN_PIPE");
}

}  // namespace

extern "C" {
/// By this Tutti knows the drop-in when it looks for NCCL itself, which has no such name.
extern const char pncclTuttiDropIn;
const char pncclTuttiDropIn = 1;
}
