// Members talk by their listeners, guests are told one thing, and who is gone is known.
#include "src/bootstrap/carrier.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "src/base/clock.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kLongNs = 20 * kNanosecondsPerSecond;
constexpr uint64_t kShortNs = kNanosecondsPerSecond / 5;

GroupKey key_of(uint8_t byte) {
  GroupKey key;
  key.group = byte;
  key.key.fill(byte);
  return key;
}

Address here() { return Address::parse("127.0.0.1").value(); }

struct Party {
  explicit Party(uint32_t number, const GroupKey& key = key_of(1)) : id{{1, 2}, number} {
    listener = listen_on(here(), 0).value();
    MemberCarrier::CarrierOptions options;
    options.self = id;
    options.members = key;
    options.guests = {key_of(9)};
    options.welcome = [](uint64_t group) { return "welcome to " + std::to_string(group); };
    carrier = MemberCarrier::open(listener.fd.get(), std::move(options)).value();
  }
  void know(const Party& other) { carrier->know(other.id, here(), other.listener.port); }

  MemberId id;
  Listener listener;
  std::unique_ptr<MemberCarrier> carrier;
};

/// Both move until `of` has messages, or for as long as `most_ns`.
std::vector<CarriedMessage> exchange_until(Party& of, Party& other, uint64_t most_ns) {
  const uint64_t end_ns = deadline_after(most_ns);
  std::vector<CarriedMessage> messages;
  while (messages.empty() && monotonic_ns() < end_ns) {
    (void)other.carrier->receive(monotonic_ns());
    messages = of.carrier->receive(deadline_after(kNanosecondsPerMillisecond));
  }
  return messages;
}

TEST(MemberCarrier, CarriesMessagesOfAnySizeAndTheAnswersOverTheSameConnection) {
  Party a(1), b(2);
  a.know(b);
  const std::string large(300'000, 'x');
  for (const std::string& text : {std::string("short"), std::string(), large}) {
    a.carrier->send(b.id, 7, text);
    const auto came = exchange_until(b, a, kLongNs);
    ASSERT_EQ(came.size(), 1u);
    EXPECT_EQ(came[0].from, a.id);
    EXPECT_EQ(came[0].kind, 7);
    EXPECT_EQ(came[0].bytes, text);
  }
  // b does not know where a listens.
  EXPECT_TRUE(b.carrier->is_connected(a.id));
  b.carrier->send(a.id, 8, "answer");
  const auto came = exchange_until(a, b, kLongNs);
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].bytes, "answer");
}

TEST(MemberCarrier, KnowsWhoIsGoneAndTakesNobodyForGoneWhoOnlySaysNothing) {
  Party a(1);
  auto gone = std::make_unique<Party>(2);
  const Listener silent = listen_on(here(), 0).value();
  const MemberId quiet{{1, 2}, 3};
  a.know(*gone);
  a.carrier->know(quiet, here(), silent.port);
  const MemberId dead = gone->id;
  gone.reset();
  a.carrier->send(dead, 1, "are you there?");
  a.carrier->send(quiet, 1, "and you?");
  (void)a.carrier->receive(deadline_after(kShortNs));
  EXPECT_EQ(a.carrier->gone(), std::set<MemberId>{dead});
  EXPECT_FALSE(a.carrier->is_connected(quiet));
}

TEST(MemberCarrier, LetsNobodyInWithAnotherKey) {
  Party a(1), stranger(2, GroupKey{1, key_of(5).key});
  stranger.know(a);
  stranger.carrier->send(a.id, 1, "let me in");
  EXPECT_TRUE(exchange_until(a, stranger, kShortNs).empty());
  EXPECT_FALSE(stranger.carrier->is_connected(a.id));
  EXPECT_TRUE(stranger.carrier->gone().empty());
}

TEST(MemberCarrier, TellsAGuestItsWordsOnceSomebodyServes) {
  const Listener listener = listen_on(here(), 0).value();
  Result<std::string> words = Status::internal_error("not asked");
  std::thread guest([&] {
    const Address address = here();
    words = ask_as_guest({&address, 1}, listener.port, key_of(9), deadline_after(kLongNs));
  });
  MemberCarrier::CarrierOptions options;
  options.members = key_of(1);
  options.guests = {key_of(9)};
  options.welcome = [](uint64_t group) { return "welcome to " + std::to_string(group); };
  auto carrier = MemberCarrier::open(listener.fd.get(), std::move(options)).value();
  std::atomic<bool> done{false};
  std::thread member([&] {
    while (!done) (void)carrier->receive(deadline_after(kNanosecondsPerMillisecond));
  });
  guest.join();
  done = true;
  member.join();
  ASSERT_TRUE(words.ok()) << words.status().message();
  EXPECT_EQ(words.value(), "welcome to 9");
}

TEST(MemberCarrier, AGuestOfAListenerThatIsGoneHearsSo) {
  uint16_t port = 0;
  {
    const Listener listener = listen_on(here(), 0).value();
    port = listener.port;
  }
  const Address address = here();
  const auto words = ask_as_guest({&address, 1}, port, key_of(9), deadline_after(kLongNs));
  EXPECT_EQ(words.status().code(), Code::kRemoteError) << words.status().message();
}

}  // namespace
}  // namespace tutti::bootstrap
