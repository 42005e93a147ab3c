// The flight recorder of a process that may be damaged, or of a program that is no Tutti at all;
// and a file in which such recorders were kept.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "src/trace/record_file.h"
#include "src/trace/recorder.h"
#include "tests/fuzz/targets.h"

namespace tutti::fuzz {
namespace {

void print(const trace::Snapshot& snapshot) {
  const std::string text = trace::to_text(snapshot, 0) + trace::to_json({snapshot}) + "\n" +
                           trace::last_call_text(snapshot, 0);
  for (const char c : text) require(c == '\n' || (c >= ' ' && c <= '~'), "it can be printed");
}

}  // namespace

bool run_recorder(Bytes input) {
  const Result<trace::Snapshot> snapshot = trace::read(as_text(input));
  if (!snapshot.ok()) return false;
  print(snapshot.value());
  return true;
}

bool run_record_file(Bytes input) {
  const trace::Recorders found = trace::read_records(as_text(input));
  for (const trace::Snapshot& snapshot : found.snapshots) print(snapshot);
  return found.refused.empty();
}

std::vector<std::string> corpus_record_file() {
  const std::string recorder = corpus_recorder().front();
  const std::string path = "/tmp/tutti-fuzz-records-" + std::to_string(getpid());
  for (const char* reason : {"rank 1 is gone", ""}) {
    require(trace::append_record(path, {reason, 7, 1'700'000'000}, recorder).ok(), "a file");
  }
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  return {content.str()};
}

std::vector<std::string> corpus_recorder() {
  trace::RecorderOptions options;
  options.host = "host";
  options.records = 4;
  Result<std::unique_ptr<trace::Recorder>> made = trace::Recorder::create(options);
  require(made.ok(), "a recorder");
  trace::Recorder& recorder = *made.value();
  recorder.begin(trace::label_of({recorder.name("broadcast"), 0, 0, 0, 2, 1 << 20}), 1);
  recorder.conclude(true);
  recorder.begin(trace::label_of({recorder.name("all_reduce"), 0, 0, 0, -1, 8}), 2);
  recorder.waits_for(3, 1, 4);
  trace::ExchangeState exchange{.peer = 3, .bytes = 8, .moved = 4, .messages = 2, .complete = 1};
  exchange.state = trace::PeerState::kGaveUp;
  for (uint32_t i = 0, room = recorder.open_lines(2); i < room; ++i) {
    exchange.sends = i == 1;
    recorder.set_line(i, exchange);
  }
  return {std::string(recorder.file())};
}

}  // namespace tutti::fuzz
