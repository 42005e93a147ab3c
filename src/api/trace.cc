// The flight recorder of tutti.h.
#include <fcntl.h>
#include <unistd.h>

#include "src/api/caught.h"
#include "src/api/handle.h"
#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/write_signals.h"
#include "src/trace/reader.h"

namespace tutti::api {
namespace {

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write_quietly(fd, text);
    if (count < 0) return errno_status("tuttiTraceDump: write");
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Status dump(const char* path) {
  const Result<trace::Recorders> found = trace::read_process(getpid());
  if (!found.ok()) return found.status();
  const auto& [snapshots, refused] = found.value();
  if (snapshots.empty() && !refused.empty()) return refused.front();
  std::string text;
  for (const trace::Snapshot& snapshot : snapshots) {
    text += trace::to_text(snapshot, monotonic_ns());
  }
  if (path == nullptr) return write_all(STDERR_FILENO, text);
  constexpr mode_t kMode = 0644;
  const Fd file(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!file.valid()) return errno_status("tuttiTraceDump: cannot open '" + std::string(path) + "'");
  return write_all(file.get(), text);
}

}  // namespace
}  // namespace tutti::api

extern "C" tuttiResult_t tuttiTraceDump(const char* path) {
  return tutti::api::caught(nullptr,
                            [&] { return tutti::api::report(nullptr, tutti::api::dump(path)); });
}
