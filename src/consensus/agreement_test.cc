// The machine step by step: who decides, who is told what, and bytes from strangers.
#include "src/consensus/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/consensus/joiner.h"
#include "tests/consensus/numbered.h"

namespace tutti::consensus {
namespace {

using Members = std::vector<uint32_t>;

View view_of(const Members& members) { return {0, {}, numbered(members), {}}; }

// A group in one process whose messages arrive at once; `cut` members send and hear nothing.
struct Group {
  Group(const Members& members, Judge judge) : view(view_of(members)) {
    for (const MemberId member : view.members) {
      Terms terms{view, member, judge, 10, member.number};
      machines[member] = std::make_unique<Agreement>(terms, rules);
    }
  }

  void begin(const Wish& wish) {
    for (const auto& [member, machine] : machines) {
      if (cut.count(member) == 0) {
        EXPECT_TRUE(machine->begin(wish, now).ok());
      }
    }
  }

  Agreement& machine(uint32_t number) { return *machines.at(numbered(number)); }

  void cut_off(uint32_t number) { cut.insert(numbered(number)); }

  void mark_dead(uint32_t number) {
    const MemberId dead = numbered(number);
    cut.insert(dead);
    for (const auto& [member, machine] : machines) machine->mark_dead(dead, now);
  }

  void run(int ticks) {
    for (int i = 0; i < ticks; ++i, ++now) {
      for (const auto& [member, machine] : machines) {
        if (cut.count(member) != 0) continue;
        machine->tick(now);
        pass_on(machine->take_messages());
      }
    }
  }

  void pass_on(std::vector<Envelope> envelopes) {
    for (const Envelope& envelope : envelopes) {
      const auto found = machines.find(envelope.to);
      if (found == machines.end() || cut.count(envelope.to) != 0) continue;
      found->second->receive(envelope.message, now);
      pass_on(found->second->take_messages());
    }
  }

  Members adopted(uint32_t number) {
    const auto& adopted = machine(number).adopted();
    return adopted ? numbers_of(adopted->members) : Members();
  }

  Rules rules;
  View view;
  std::map<MemberId, std::unique_ptr<Agreement>> machines;
  std::set<MemberId> cut;
  uint64_t now = 0;
};

TEST(Agreement, RemovesWhoeverIsDeadAndKeepsTheOrder) {
  Group group({7, 3, 9, 4}, Judge::kKernel);
  group.mark_dead(3);
  group.begin({});
  group.run(200);
  for (const uint32_t member : {7, 9, 4}) EXPECT_EQ(group.adopted(member), (Members{7, 9, 4}));
}

TEST(Agreement, OnOneHostWaitsForAMemberThatIsStopped) {
  Group group({1, 2, 3}, Judge::kKernel);
  group.cut_off(3);
  group.begin({});
  group.run(500);
  EXPECT_TRUE(group.adopted(1).empty());
  EXPECT_EQ(numbers_of(group.machine(1).silent()), (Members{3}));
  group.mark_dead(3);
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2}));
}

TEST(Agreement, OverHostsAMajorityDecidesAndKeepsWhoIsOnlySilent) {
  Group group({1, 2, 3}, Judge::kMajority);
  group.cut_off(3);
  group.begin({});
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2, 3}));
}

// A member that died before the edit is found dead by those who call it: a majority of the others
// must not be faster than that.
TEST(Agreement, OverHostsAMajorityFirstHearsWhoIsDead) {
  Group group({1, 2, 3}, Judge::kMajority);
  group.cut_off(3);
  group.begin({});
  group.run(15);
  EXPECT_TRUE(group.adopted(1).empty());
  group.mark_dead(3);
  group.run(5);
  EXPECT_EQ(group.adopted(1), (Members{1, 2}));
}

TEST(Agreement, OfTwoHalvesTheOneWithTheLeastMemberDecides) {
  Group with({5, 1, 2, 8}, Judge::kMajority);
  with.mark_dead(5);
  with.mark_dead(8);
  with.begin({});
  with.run(500);
  EXPECT_EQ(with.adopted(1), (Members{1, 2}));
  Group without({5, 1, 2, 8}, Judge::kMajority);
  without.mark_dead(1);
  without.mark_dead(2);
  for (const uint32_t member : {5, 8}) {
    EXPECT_TRUE(without.machine(member).begin({}, 0).ok());
    EXPECT_EQ(without.machine(member).failure().code(), Code::kRemoteError);
  }
}

TEST(Agreement, ANewcomerTakesThePlaceOfTheDead) {
  Group group({1, 2, 3}, Judge::kMajority);
  group.mark_dead(2);
  Wish wish;
  wish.join = 1;
  group.begin(wish);
  group.run(300);
  EXPECT_TRUE(group.adopted(1).empty());
  Joiner joiner(group.view, numbered(40), "card", 10);
  joiner.tick(group.now);
  group.pass_on(joiner.take_messages());
  group.run(300);
  EXPECT_EQ(group.adopted(1), (Members{1, 40, 3}));
  EXPECT_EQ(group.machine(3).adopted()->newcomers, (std::vector<Newcomer>{{numbered(40), "card"}}));
  // A newcomer that missed the decision is told again when it asks.
  EditMessage here;
  here.from = numbered(40);
  here.view = group.view.digest();
  group.machine(1).receive(here, group.now);
  for (const Envelope& envelope : group.machine(1).take_messages()) {
    if (envelope.to == numbered(40)) joiner.receive(envelope.message);
  }
  EXPECT_TRUE(joiner.adopted());
}

TEST(Agreement, AListFixesTheRanks) {
  Group group({1, 2, 3}, Judge::kMajority);
  Wish wish;
  wish.who = Wish::Leave::kNamed;
  wish.leave = numbered(Members{1});
  wish.order = numbered(Members{3, 2});
  group.cut_off(1);
  group.begin(wish);
  group.run(300);
  EXPECT_EQ(group.adopted(2), (Members{3, 2}));
  EXPECT_EQ(group.adopted(3), (Members{3, 2}));
}

TEST(Agreement, AListSaysWhereNewcomersComeThatNobodyKnowsYet) {
  Group group({1, 2}, Judge::kKernel);
  Wish wish;
  wish.who = Wish::Leave::kNamed;
  wish.join = 2;
  wish.order = {kAnyNewcomer, numbered(2), kAnyNewcomer, numbered(1)};
  group.begin(wish);
  for (const uint32_t number : {50, 40}) {
    EXPECT_TRUE(group.adopted(1).empty());
    Joiner joiner(group.view, numbered(number), "card", 10);
    joiner.tick(group.now);
    group.pass_on(joiner.take_messages());
    group.run(100);
  }
  EXPECT_EQ(group.adopted(1), (Members{40, 2, 50, 1}));
  EXPECT_EQ(group.adopted(2), (Members{40, 2, 50, 1}));
}

TEST(Agreement, MembersThatWantDifferentEditsHearSo) {
  Group group({1, 2, 3}, Judge::kMajority);
  Wish one, other;
  one.who = other.who = Wish::Leave::kNamed;
  one.leave = numbered(Members{3});
  other.leave = numbered(Members{});
  EXPECT_TRUE(group.machine(1).begin(one, 0).ok());
  EXPECT_TRUE(group.machine(2).begin(other, 0).ok());
  group.run(500);
  for (const uint32_t member : {1, 2}) {
    EXPECT_EQ(group.machine(member).failure().code(), Code::kInvalidUsage) << member;
    EXPECT_TRUE(group.adopted(member).empty());
  }
}

TEST(Agreement, RefusesAWishThatTheGroupCannotHave) {
  Group group({1, 2}, Judge::kMajority);
  Agreement& machine = group.machine(1);
  Wish all, stranger, twice, self, mixed;
  all.who = stranger.who = twice.who = self.who = Wish::Leave::kNamed;
  all.leave = numbered(Members{1, 2});
  stranger.leave = numbered(Members{9});
  twice.leave = numbered(Members{2, 2});
  self.leave = numbered(Members{1});
  mixed.leave = numbered(Members{2});
  for (const Wish& wish : {all, stranger, twice, self, mixed}) {
    EXPECT_EQ(machine.begin(wish, 0).code(), Code::kInvalidArgument) << wish.describe();
  }
}

TEST(Agreement, ATryThatStoppedMayBeRepeated) {
  Group group({1, 2, 3}, Judge::kKernel);
  group.cut_off(2);
  group.cut_off(3);
  group.begin({});
  group.run(100);
  group.machine(1).stop();
  EXPECT_EQ(group.machine(1).wake_at(), Agreement::kNever);
  group.cut = {};
  group.begin({});
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2, 3}));
}

Members ordered(const Members& previous, const Members& leaving, const Members& joining) {
  return numbers_of(next_order(numbered(previous), numbered(leaving), numbered(joining)));
}

TEST(NextOrder, ClosesUpAndAppends) {
  EXPECT_EQ(ordered({1, 2, 3, 4}, {2, 4}, {}), (Members{1, 3}));
  EXPECT_EQ(ordered({1, 2, 3, 4}, {2, 4}, {8}), (Members{1, 8, 3}));
  EXPECT_EQ(ordered({1, 2}, {1}, {8, 9}), (Members{8, 2, 9}));
  EXPECT_EQ(ordered({1, 2}, {}, {8}), (Members{1, 2, 8}));
}

EditMessage full_message() {
  EditMessage message;
  message.kind = EditMessage::Subject::kPromise;
  message.from = numbered(77);
  message.epoch = 5;
  message.view = view_of({1, 2}).digest();
  message.ballot = {4, numbered(1)};
  message.promised = {5, numbered(2)};
  message.proposal = ViewProposal{
      {3, numbered(2)}, {6, message.view, numbered(Members{1, 9}), {{numbered(9), "card"}}}};
  message.dead = {numbered(2)};
  message.text = "text";
  return message;
}

TEST(ConsensusMessage, SurvivesItsBytes) {
  const EditMessage message = full_message();
  const Result<EditMessage> read = EditMessage::decode(message.encode());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value(), message);
}

TEST(ConsensusMessage, RefusesEveryPrefixAndSurvivesEveryChangedByte) {
  const std::string bytes = full_message().encode();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(EditMessage::decode(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(EditMessage::decode(bytes + "x").ok());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0xff);
    (void)EditMessage::decode(changed);  // whatever it says, it ends
  }
}

TEST(ConsensusView, RefusesRepeatsAndStrangers) {
  EXPECT_FALSE(View::decode(View{1, {}, numbered(Members{1, 1}), {}}.encode()).ok());
  EXPECT_FALSE(View::decode(View{1, {}, numbered(Members{1}), {{numbered(2), ""}}}.encode()).ok());
  EXPECT_FALSE(View::decode(View{1, {}, {}, {}}.encode()).ok());
  const View first{1, {}, numbered(Members{1}), {}}, second{2, {}, numbered(Members{1}), {}};
  EXPECT_NE(first.digest(), second.digest());
}

}  // namespace
}  // namespace tutti::consensus
