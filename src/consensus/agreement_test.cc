// The machine step by step: who decides, who is told what, and bytes from strangers.
#include "src/consensus/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/consensus/joiner.h"

namespace tutti::consensus {
namespace {

View view_of(std::vector<Member> members) { return {0, {}, std::move(members), {}}; }

// A group in one process whose messages arrive at once; `cut` members send and hear nothing.
struct Group {
  Group(std::vector<Member> members, Judge judge) : view(view_of(std::move(members))) {
    for (const Member member : view.members) {
      Terms terms{view, member, judge, 10, member};
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

  void mark_dead(Member dead) {
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

  std::vector<Member> adopted(Member member) {
    const auto& adopted = machines.at(member)->adopted();
    return adopted ? adopted->members : std::vector<Member>();
  }

  Rules rules;
  View view;
  std::map<Member, std::unique_ptr<Agreement>> machines;
  std::set<Member> cut;
  uint64_t now = 0;
};

using Members = std::vector<Member>;

TEST(Agreement, RemovesWhoeverIsDeadAndKeepsTheOrder) {
  Group group({7, 3, 9, 4}, Judge::kKernel);
  group.mark_dead(3);
  group.begin({});
  group.run(200);
  for (const Member member : {7, 9, 4}) EXPECT_EQ(group.adopted(member), (Members{7, 9, 4}));
}

TEST(Agreement, OnOneHostWaitsForAMemberThatIsStopped) {
  Group group({1, 2, 3}, Judge::kKernel);
  group.cut.insert(3);
  group.begin({});
  group.run(500);
  EXPECT_TRUE(group.adopted(1).empty());
  EXPECT_EQ(group.machines.at(1)->silent(), (Members{3}));
  group.mark_dead(3);
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2}));
}

TEST(Agreement, OverHostsAMajorityDecidesAndKeepsWhoIsOnlySilent) {
  Group group({1, 2, 3}, Judge::kMajority);
  group.cut.insert(3);
  group.begin({});
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2, 3}));
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
  for (const Member member : {5, 8}) {
    EXPECT_TRUE(without.machines.at(member)->begin({}, 0).ok());
    EXPECT_EQ(without.machines.at(member)->failure().code(), Code::kRemoteError);
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
  Joiner joiner(group.view, 40, "card", 10);
  joiner.tick(group.now);
  group.pass_on(joiner.take_messages());
  group.run(300);
  EXPECT_EQ(group.adopted(1), (Members{1, 40, 3}));
  EXPECT_EQ(group.machines.at(3)->adopted()->newcomers, (std::vector<Newcomer>{{40, "card"}}));
  // A newcomer that missed the news is told again when it asks.
  EditMessage here;
  here.from = 40;
  here.view = group.view.digest();
  group.machines.at(1)->receive(here, group.now);
  for (const Envelope& envelope : group.machines.at(1)->take_messages()) {
    if (envelope.to == 40) joiner.receive(envelope.message);
  }
  EXPECT_TRUE(joiner.adopted());
}

TEST(Agreement, AListFixesTheRanks) {
  Group group({1, 2, 3}, Judge::kMajority);
  Wish wish;
  wish.who = Wish::Leave::kNamed;
  wish.leave = {1};
  wish.order = {3, 2};
  group.cut.insert(1);
  group.begin(wish);
  group.run(300);
  EXPECT_EQ(group.adopted(2), (Members{3, 2}));
  EXPECT_EQ(group.adopted(3), (Members{3, 2}));
}

TEST(Agreement, MembersThatWantDifferentEditsHearSo) {
  Group group({1, 2, 3}, Judge::kMajority);
  Wish one, other;
  one.who = other.who = Wish::Leave::kNamed;
  one.leave = {3};
  other.leave = {};
  EXPECT_TRUE(group.machines.at(1)->begin(one, 0).ok());
  EXPECT_TRUE(group.machines.at(2)->begin(other, 0).ok());
  group.run(500);
  for (const Member member : {1, 2}) {
    EXPECT_EQ(group.machines.at(member)->failure().code(), Code::kInvalidUsage) << member;
    EXPECT_TRUE(group.adopted(member).empty());
  }
}

TEST(Agreement, RefusesAWishThatTheGroupCannotHave) {
  Group group({1, 2}, Judge::kMajority);
  Agreement& machine = *group.machines.at(1);
  Wish all, stranger, twice, self, mixed;
  all.who = stranger.who = twice.who = self.who = Wish::Leave::kNamed;
  all.leave = {1, 2};
  stranger.leave = {9};
  twice.leave = {2, 2};
  self.leave = {1};
  mixed.leave = {2};
  for (const Wish& wish : {all, stranger, twice, self, mixed}) {
    EXPECT_EQ(machine.begin(wish, 0).code(), Code::kInvalidArgument) << wish.describe();
  }
}

TEST(Agreement, ATryThatStoppedMayBeRepeated) {
  Group group({1, 2, 3}, Judge::kKernel);
  group.cut = {2, 3};
  group.begin({});
  group.run(100);
  group.machines.at(1)->stop();
  EXPECT_EQ(group.machines.at(1)->wake_at(), Agreement::kNever);
  group.cut = {};
  group.begin({});
  group.run(500);
  EXPECT_EQ(group.adopted(1), (Members{1, 2, 3}));
}

TEST(NextOrder, ClosesUpAndAppends) {
  EXPECT_EQ(next_order({1, 2, 3, 4}, {2, 4}, {}), (Members{1, 3}));
  EXPECT_EQ(next_order({1, 2, 3, 4}, {2, 4}, {8}), (Members{1, 8, 3}));
  EXPECT_EQ(next_order({1, 2}, {1}, {8, 9}), (Members{8, 2, 9}));
  EXPECT_EQ(next_order({1, 2}, {}, {8}), (Members{1, 2, 8}));
}

EditMessage full_message() {
  EditMessage message;
  message.kind = EditMessage::Subject::kPromise;
  message.from = 77;
  message.epoch = 5;
  message.view = view_of({1, 2}).digest();
  message.ballot = {4, 1};
  message.promised = {5, 2};
  message.proposal = ViewProposal{{3, 2}, {6, message.view, {1, 9}, {{9, "card"}}}};
  message.dead = {2};
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
  EXPECT_FALSE(View::decode(View{1, {}, {1, 1}, {}}.encode()).ok());
  EXPECT_FALSE(View::decode(View{1, {}, {1}, {{2, ""}}}.encode()).ok());
  EXPECT_FALSE(View::decode(View{1, {}, {}, {}}.encode()).ok());
  EXPECT_NE((View{1, {}, {1}, {}}.digest()), (View{2, {}, {1}, {}}.digest()));
}

}  // namespace
}  // namespace tutti::consensus
