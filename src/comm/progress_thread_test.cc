#include "src/comm/progress_thread.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "src/base/clock.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kPatienceNs = 60'000'000'000;

bool eventually(const std::function<bool()>& condition) {
  for (const uint64_t end_ns = monotonic_ns() + kPatienceNs; monotonic_ns() < end_ns;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return false;
}

/// Bytes come by ring(); progress() takes them unless a call is said to be at it.
class FakeLink final : public transport::Link,
                       public transport::Stream,
                       public transport::OneSided {
 public:
  using Ticket = transport::Stream::Ticket;

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Stream* stream() override { return this; }
  transport::OneSided* one_sided() override { return this; }
  Status status() const override {
    return broken.load() ? Status::remote_error("broken") : Status();
  }

  bool progress() override {
    inside.store(true);
    while (held.load()) std::this_thread::yield();
    visits.fetch_add(1);
    output.store(false);
    uint64_t rung = 0;
    const bool moved = !busy.load() && read(bell_.get(), &rung, sizeof rung) > 0;
    if (moved) {
      moved_.fetch_add(1);
      taken.fetch_add(rung);
    }
    inside.store(false);
    return moved;
  }
  void on_note(std::function<void(transport::ChannelId)>) override {}
  State state() const override { return idle.load() ? State::kIdle : Link::state(); }
  void on_settled(std::function<void()> call) override { settled = std::move(call); }
  int descriptor() const override { return idle.load() ? -1 : descriptor_; }
  bool has_output() const override { return output.load(); }
  uint64_t moves() const override { return moved_.load(); }
  void on_answers(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

  void ring() {
    const uint64_t one = 1;
    ASSERT_EQ(write(bell_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void take_descriptor_of(const FakeLink& other) { descriptor_ = other.descriptor_; }
  void have_no_descriptor() { descriptor_ = 1 << 20; }
  /// As calls do that leave bytes behind which came later.
  void move_for_a_call() { moved_.fetch_add(1); }
  /// As a call would that has left an answer unsent.
  void leave_answer() {
    const std::lock_guard lock(mutex_);
    output.store(true);
    if (wake_) wake_();
  }

  Ticket send(transport::ChannelId, uint32_t, std::span<const transport::ConstBuffer>) override {
    return 0;
  }
  Ticket receive(transport::ChannelId, uint32_t, std::span<const transport::Buffer>) override {
    return 0;
  }
  bool sent(Ticket) const override { return true; }
  bool received(Ticket) const override { return true; }
  void tell(transport::ChannelId, const transport::Note&) override {}
  uint64_t heard(transport::ChannelId, transport::Note&) const override { return 0; }
  void expose(transport::ChannelId, const transport::Region&) override {}
  bool withdraw(transport::ChannelId) override { return true; }
  bool cut_off(transport::ChannelId) override { return true; }
  Status epoch_status(transport::EpochId) const override { return {}; }
  void prioritize(transport::EpochId, transport::Priority) override {}
  void end_epoch(transport::EpochId) override {}
  bool has_let_go(transport::EpochId) override { return true; }
  Ticket put(transport::ChannelId, uint64_t, transport::ConstBuffer, uint32_t) override {
    return 0;
  }
  Ticket get(transport::ChannelId, uint64_t, transport::Buffer) override { return 0; }
  bool refused(transport::ChannelId) const override { return false; }

  std::atomic<uint64_t> taken{0}, visits{0};
  std::atomic<bool> busy{false}, broken{false}, held{false}, inside{false}, output{false};
  std::atomic<bool> idle{false};
  std::function<void()> settled;

 private:
  transport::Capabilities capabilities_;
  const Fd bell_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  int descriptor_ = bell_.get();
  std::atomic<uint64_t> moved_{0};
  std::mutex mutex_;
  std::function<void()> wake_;
};

TEST(ProgressThread, MovesWhatComes) {
  FakeLink first, second;
  ProgressThread progress_thread;
  first.ring();  // before it is attended
  ASSERT_TRUE(progress_thread.attend(first, {}).ok());
  ASSERT_TRUE(progress_thread.attend(second, {}).ok());
  for (uint64_t times = 1; times <= 20; ++times) {
    EXPECT_TRUE(eventually([&] { return first.taken.load() == times; }));
    second.ring();
    EXPECT_TRUE(eventually([&] { return second.taken.load() == times; }));
    first.ring();
  }
  progress_thread.leave(first);
  progress_thread.leave(second);
}

// Input that a call leaves behind is not forgotten, although there is no new event.
TEST(ProgressThread, ComesBackToALinkThatACallWasAt) {
  FakeLink link;
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(link, {}).ok());
  link.busy.store(true);
  link.ring();
  EXPECT_TRUE(eventually([&] { return link.visits.load() >= 3; }));
  EXPECT_EQ(link.taken.load(), 0u);
  link.busy.store(false);
  EXPECT_TRUE(eventually([&] { return link.taken.load() == 1; }));
  progress_thread.leave(link);
}

TEST(ProgressThread, LeavesALinkToTheCallsThatMoveIt) {
  FakeLink link;
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(link, {}).ok());
  for (uint64_t times = 1; times <= 20; ++times) {
    const uint64_t begin_ns = monotonic_ns();
    link.move_for_a_call();
    link.ring();
    EXPECT_TRUE(eventually([&] { return link.taken.load() == times; }));
    EXPECT_GE(monotonic_ns() - begin_ns, 1'000'000u) << "it rested first";
    EXPECT_EQ(link.visits.load(), times) << "and did not even look";
  }
  progress_thread.leave(link);
}

TEST(ProgressThread, SaysThatALateLinkCannotBeAttended) {
  FakeLink link;
  link.idle.store(true);
  ProgressThread progress_thread;
  std::string said;
  ASSERT_TRUE(progress_thread.attend(link, [&](const Status& why) { said = why.message(); }).ok());
  link.have_no_descriptor();
  link.idle.store(false);
  link.settled();
  EXPECT_NE(said.find("cannot watch descriptor"), std::string::npos) << said;
  progress_thread.leave(link);
}

TEST(ProgressThread, OfLinksThatShareAConnectionOneIsMoved) {
  FakeLink first, second;
  second.take_descriptor_of(first);
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(first, {}).ok());
  ASSERT_TRUE(progress_thread.attend(second, {}).ok());
  first.ring();
  EXPECT_TRUE(eventually([&] { return first.taken.load() == 1; }));
  EXPECT_EQ(second.visits.load(), 0u);
  progress_thread.leave(second);  // which was not moved
  first.ring();
  EXPECT_TRUE(eventually([&] { return first.taken.load() == 2; }));
  progress_thread.leave(first);
}

TEST(ProgressThread, AnotherLinkIsMovedWhereTheFirstOneEndsOrFails) {
  for (const bool fails : {true, false}) {
    FakeLink first, second;
    second.take_descriptor_of(first);
    ProgressThread progress_thread;
    ASSERT_TRUE(progress_thread.attend(first, {}).ok());
    ASSERT_TRUE(progress_thread.attend(second, {}).ok());
    if (fails) {
      first.broken.store(true);
    } else {
      progress_thread.leave(first);
    }
    EXPECT_TRUE(eventually([&] {
      first.ring();
      return second.visits.load() > 0;
    })) << fails;
    if (fails) progress_thread.leave(first);
    progress_thread.leave(second);
  }
}

TEST(ProgressThread, SendsTheAnswersThatACallHasLeft) {
  FakeLink link;
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(link, {}).ok());
  for (int times = 0; times < 20; ++times) {
    link.leave_answer();
    EXPECT_TRUE(eventually([&] { return !link.output.load(); }));
  }
  progress_thread.leave(link);
  const uint64_t visits = link.visits.load();
  link.leave_answer();
  EXPECT_EQ(link.visits.load(), visits);
}

TEST(ProgressThread, LeaveWaitsForTheThread) {
  FakeLink link;
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(link, {}).ok());
  link.held.store(true);
  link.ring();
  ASSERT_TRUE(eventually([&] { return link.inside.load(); }));
  std::atomic<bool> left{false};
  std::thread leaver([&] {
    progress_thread.leave(link);
    EXPECT_FALSE(link.inside.load());
    left.store(true);
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(left.load());
  link.held.store(false);
  leaver.join();
}

TEST(ProgressThread, ALinkThatConnectsLaterIsMovedFromThenOn) {
  FakeLink link, left;
  link.idle.store(true);
  left.idle.store(true);
  ProgressThread progress_thread;
  ASSERT_TRUE(progress_thread.attend(link, {}).ok());
  ASSERT_TRUE(progress_thread.attend(left, {}).ok());
  link.ring();
  progress_thread.leave(left);
  for (FakeLink* settling : {&link, &left}) {
    settling->idle.store(false);
    settling->settled();
  }
  EXPECT_TRUE(eventually([&] { return link.taken.load() == 1; }));
  left.ring();
  progress_thread.leave(link);
  EXPECT_EQ(left.visits.load(), 0u);
}

TEST(ProgressThread, ABrokenLinkIsMovedNoMore) {
  FakeLink broken, sound;
  ProgressThread progress_thread;
  broken.broken.store(true);
  broken.busy.store(true);  // its descriptor stays readable
  ASSERT_TRUE(progress_thread.attend(broken, {}).ok());
  ASSERT_TRUE(progress_thread.attend(sound, {}).ok());
  broken.ring();
  for (uint64_t times = 1; times <= 100; ++times) {
    sound.ring();
    ASSERT_TRUE(eventually([&] { return sound.taken.load() == times; }));
  }
  EXPECT_EQ(broken.visits.load(), 1u);
  progress_thread.leave(broken);
  progress_thread.leave(sound);
}

}  // namespace
}  // namespace tutti::comm
