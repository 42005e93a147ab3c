// Processes of a transfer queue that are killed at random, and the account of what became of each
// row.
//
// Units:  a kill is one process of one producer or consumer, ended by SIGKILL.
// Errors: expectations of GoogleTest.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/queue/rows.h"
#include "tutti/runtime/transfer_queue.h"

extern char** environ;

namespace tutti::testing_support {

/// A process, its program being the first of its words, whose output is added to a file; killed at
/// the latest with this object.
class QueueProcess {
 public:
  QueueProcess(std::vector<std::string> words, const std::string& output) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int pipe_ends[2] = {-1, -1};
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) ADD_FAILURE() << "pipe2";
    input_ = pipe_ends[1];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[0], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) {
      ADD_FAILURE() << "cannot start " << arguments[0];
      pid_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[0]);
  }
  ~QueueProcess() {
    kill();
    close(input_);
  }
  QueueProcess(const QueueProcess&) = delete;
  QueueProcess& operator=(const QueueProcess&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// True once: the process has ended by itself.
  bool has_ended() {
    if (pid_ <= 0 || waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
};

class KilledQueue {
 public:
  /// `program`: the file of queue_main.cc.
  KilledQueue(std::string program, unsigned seed) : program_(std::move(program)), random_(seed) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_killed_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    runtime::QueueSpec spec;
    spec.rows = kRowsOfStep;
    spec.fields = {"prompt", "answer"};
    // The end of a connection gives rows back; the lease is for what this test never has.
    spec.lease = std::chrono::minutes(10);
    for (const char* unit : {"u0", "u1"}) {
      spec.units.push_back("unix:" + (folder_ / unit).string());
      units_.push_back(std::make_unique<QueueProcess>(
          std::vector<std::string>{program_, "unit", spec.units.back(), "10000000"}, output()));
    }
    controller_ = std::make_unique<runtime::QueueController>(
        "unix:" + (folder_ / "controller").string(), spec);
    keeper_ = std::make_unique<runtime::QueueClient>(controller_->address());
    for (const char* task : kTasks) keeper_->add_task({task, {"prompt", "answer"}, 1});
  }
  ~KilledQueue() {
    crew_.clear();
    units_.clear();
    std::filesystem::remove_all(folder_);
  }

  /// Step after step, each of which is killed at for a while and then left to end.
  void run(int kills) {
    const int each = 10;
    for (int64_t step = 0; kills_ < kills; ++step) {
      for (const char* task : kTasks) start("consume", task);
      start("consume", kTasks[0]);
      for (int k = 0; k < each && kills_ < kills; ++k) {
        if (producing(step) == 0) start("produce", std::to_string(step));
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 15'000));
        kill_one();
      }
      while (producing(step) == 0 && !is_produced_) start("produce", std::to_string(step));
      keeper_->drain(step, std::chrono::minutes(10));
      crew_.clear();
      EXPECT_EQ(keeper_->clear(step), 0);
      keeper_->publish(step + 1);
      is_produced_ = false;
      ++steps_;
    }
  }

  /// Each row of each task: acknowledged once as the controller has it, never twice as its
  /// consumers say, and read with the right bytes before.
  void check() {
    std::map<std::string, int> read, acked;
    std::ifstream file(output());
    for (std::string line; std::getline(file, line);) {
      const std::string what = line.substr(0, line.find(' ')), row = line.substr(what.size());
      if (what == "read") ++read[row];
      if (what == "acked") ++acked[row];
      EXPECT_TRUE(what == "read" || what == "acked" || what == "ready") << line;
    }
    int64_t lapsed = 0;
    for (const char* task : kTasks) {
      const runtime::QueueTaskCounts counts = keeper_->counts(task);
      EXPECT_EQ(counts.consumed, steps_ * kRowsOfStep);
      EXPECT_EQ(counts.lent + counts.free + counts.expired, 0);
      lapsed += counts.lapsed;
    }
    EXPECT_EQ(read.size(), size_t(2 * steps_ * kRowsOfStep));
    for (const auto& [row, times] : acked) EXPECT_EQ(times, 1) << row;
    // A consumer that was killed between its ack and its word of it.
    EXPECT_LE(read.size() - acked.size(), size_t(kills_ * 6));
    // Few kills may all miss what they are meant for where the machine is busy.
    if (kills_ >= 200) {
      EXPECT_GT(lapsed, 0) << "no kill hit a consumer with rows in hand";
      EXPECT_GT(kills_of_["produce"], 0);
    }
    std::printf("%d kills (%d of producers), %ld rows for 2 tasks, %ld loans of rows lapsed\n",
                kills_, kills_of_["produce"], long(steps_ * kRowsOfStep), long(lapsed));
  }

 private:
  static constexpr const char* kTasks[] = {"reward", "train"};
  struct Member {
    std::string role, argument;
    std::unique_ptr<QueueProcess> process;
  };

  std::string output() const { return (folder_ / "said").string(); }

  void start(const std::string& role, const std::string& argument) {
    const std::vector<std::string> words = {program_, role, controller_->address(), argument,
                                            std::to_string(random_() % 100'000)};
    crew_.push_back({role, argument, std::make_unique<QueueProcess>(words, output())});
  }

  /// How many produce now; those that have put all are done.
  int producing(int64_t step) {
    int count = 0;
    for (Member& member : crew_) {
      if (member.role != "produce" || member.argument != std::to_string(step)) continue;
      if (member.process->has_ended()) is_produced_ = true;
      ++count;
    }
    return count;
  }

  void kill_one() {
    Member& member = crew_[random_() % crew_.size()];
    member.process->kill();
    ++kills_;
    ++kills_of_[member.role];
    const std::string role = member.role, argument = member.argument;
    std::swap(member, crew_.back());
    crew_.pop_back();
    start(role, argument);
  }

  std::string program_;
  std::mt19937 random_;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<QueueProcess>> units_;
  std::unique_ptr<runtime::QueueController> controller_;
  std::unique_ptr<runtime::QueueClient> keeper_;
  std::vector<Member> crew_;
  std::map<std::string, int> kills_of_;
  int kills_ = 0;
  int64_t steps_ = 0;
  bool is_produced_ = false;
};

}  // namespace tutti::testing_support
