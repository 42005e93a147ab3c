#include "algorithms/patterns/weave.h"

namespace tutti::algorithms::patterns {

using namespace schedule;

void Weaver::run(const Phase& phase, const Teams& teams, const Parameters& p) {
  if (teams.children == 1) return;
  algorithm_ = &phase.algorithm;
  const Schedule schedule = phase.algorithm.schedule(p, teams.child);
  for (const Step& step : schedule.steps) {
    for (const Team& team : teams.teams) {
      if (step.kind == StepKind::kSend) {
        send(schedule, step, teams, team);
      } else {
        move(schedule, step, teams, team);
      }
    }
  }
}

Weaver::Names Weaver::named(const Schedule& schedule, std::span<const Block> blocks,
                            const Teams& teams, const Team& team) const {
  Names names;
  for (const Block block : blocks) {
    for (const uint32_t part :
         parts_of(*algorithm_, schedule, block, static_cast<uint32_t>(teams.child),
                  static_cast<uint32_t>(teams.children))) {
      names.insert(names.end(), team.blocks[part].begin(), team.blocks[part].end());
    }
  }
  return names;
}

std::vector<Block> Weaver::values_of(const Names& names) const {
  std::vector<Block> blocks;
  for (const uint32_t name : names) blocks.push_back(values_[name]);
  return blocks;
}

void Weaver::send(const Schedule& schedule, const Step& step, const Teams& teams,
                  const Team& team) {
  const Names names = named(schedule, schedule.blocks_of(step), teams, team);
  if (names.empty()) return;
  std::vector<int> peers;
  for (const uint32_t peer : schedule.peers_of(step)) peers.push_back(team.members[peer]);
  builder_.send(values_of(names), peers);
}

void Weaver::move(const Schedule& schedule, const Step& step, const Teams& teams,
                  const Team& team) {
  const auto sources = schedule.sources_of(step);
  if (sources.size() == 1 && !sources[0].is_message()) return;  // the value stays where it is
  const Names names = named(schedule, schedule.blocks_of(step), teams, team);
  if (names.empty()) return;
  std::vector<std::vector<Block>> lists(sources.size());  // operands only view their blocks
  std::vector<MoveSource> operands;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source source = sources[i];
    if (source.is_message()) {
      operands.push_back(MoveSource::message(team.members[static_cast<size_t>(source.peer())]));
    } else {
      lists[i] = values_of(named(schedule, schedule.blocks_of(step, source), teams, team));
      operands.push_back(MoveSource::local(lists[i]));
    }
  }
  for (const uint32_t name : names) {
    if (!is_written_[name]) values_[name] = target_(name);
    is_written_[name] = true;
  }
  builder_.move(values_of(names), operands, step.fold);
}

}  // namespace tutti::algorithms::patterns
