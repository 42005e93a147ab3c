// The file that a failed communicator leaves: written, read, damaged, and not too much of it.
#include "src/trace/record_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "src/trace/recorder.h"

namespace tutti::trace {
namespace {

namespace fs = std::filesystem;

class RecordFile : public testing::Test {
 protected:
  RecordFile() {
    std::string name = testing::TempDir() + "records-XXXXXX";
    folder_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~RecordFile() override { fs::remove_all(folder_); }

  /// A recorder of one failed call.
  static std::unique_ptr<Recorder> recorder_of(int rank) {
    RecorderOptions options;
    options.records = 8;
    options.rank = rank;
    options.ranks = 4;
    options.host = "alpha";
    auto recorder = std::move(Recorder::create(options)).value();
    const uint8_t name = recorder->name("all_reduce");
    recorder->begin(label_of({name, 0, 0, 0, -1, uint64_t{1} << 20}), 2);
    recorder->waits_for(3, 0, 1);
    recorder->conclude(false);
    return recorder;
  }
  std::string content() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }
  std::string path() const { return folder_ + "/records"; }

  std::string folder_;
};

TEST_F(RecordFile, HoldsTheRecordsOfSeveralRanksInTheirOrder) {
  for (const int rank : {2, 0}) {
    const FailureRecord failure{"rank 3 is \x1b gone", 77'000'000'000, 1'700'000'000};
    ASSERT_TRUE(append_record(path(), failure, recorder_of(rank)->file()).ok());
  }
  const Result<Recorders> found = read_record_file(path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(found.value().refused.empty());
  ASSERT_EQ(found.value().snapshots.size(), 2u);
  EXPECT_EQ(found.value().snapshots[0].rank, 2);
  EXPECT_EQ(found.value().snapshots[1].rank, 0);
  const Snapshot& first = found.value().snapshots[0];
  EXPECT_EQ(first.failure.reason, "rank 3 is ? gone");
  EXPECT_EQ(first.calls.size(), 1u);
  const std::string text = to_text(first, 1);
  EXPECT_NE(text.find("failed at 2023-11-14 22:13:20 UTC: rank 3 is ? gone"), text.npos) << text;
  EXPECT_NE(to_json({first}).find(R"("unix_time":1700000000})"), std::string::npos);
  const std::string last = last_call_text(first, 1);
  EXPECT_TRUE(last.starts_with("in all_reduce, call 2, after it had waited ")) << last;
  EXPECT_TRUE(last.ends_with(" s for rank 3")) << last;
}

TEST_F(RecordFile, LosesNothingBeforeARecordThatIsDamaged) {
  const auto append = [&] { return append_record(path(), {"why", 1, 1}, recorder_of(1)->file()); };
  ASSERT_TRUE(append().ok() && append().ok());
  const std::string whole = content();
  for (size_t length = whole.size() / 2; length < whole.size(); length += 41) {
    const Recorders found = read_records(whole.substr(0, length));
    EXPECT_EQ(found.snapshots.size(), 1u) << length;
    EXPECT_EQ(found.refused.empty(), length == whole.size() / 2) << length;
  }
  EXPECT_EQ(read_records("no record at all, but long enough for the head of one").refused.size(),
            1u);
  EXPECT_FALSE(read_record_file(folder_ + "/missing").ok());
}

TEST_F(RecordFile, ThePrivateFolderIsMadeAndKeepsTheLatest) {
  const std::string folder = folder_ + "/tutti";
  const std::string file(recorder_of(0)->file());
  constexpr int kMade = 70, kKept = 64;
  for (int i = 0; i < kMade; ++i) {
    const std::string path = folder + "/trace-host-" + std::to_string(i);
    ASSERT_TRUE(append_private_record(path, {"why", 1, 1}, file).ok());
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(kMade - i));
  }
  std::ofstream(folder + "/of-somebody-else") << "stays";
  ASSERT_TRUE(append_private_record(folder + "/trace-host-last", {"why", 1, 1}, file).ok());
  EXPECT_FALSE(fs::exists(folder + "/trace-host-0"));
  EXPECT_TRUE(fs::exists(folder + "/trace-host-69"));
  EXPECT_TRUE(fs::exists(folder + "/of-somebody-else"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), kKept + 1);
  struct stat found {};
  ASSERT_EQ(stat((folder + "/trace-host-last").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(RecordFile, AFolderThatOthersMayWriteToIsRefused) {
  const std::string folder = folder_ + "/tutti";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const Status status = append_private_record(folder + "/trace-a", {"why", 1, 1}, "");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("chmod 700"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace tutti::trace
