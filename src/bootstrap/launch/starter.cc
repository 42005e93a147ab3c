#include "src/bootstrap/launch/starter.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

struct ProcessFacts {
  ProcessName name;
  pid_t parent = 0;
  pid_t session = 0;
  uint64_t stack = 0;  // where it began, which chance decides for each program: 0: not told

  bool leads_session() const { return session == name.number; }
};

std::string read_whole(pid_t process, const char* what) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + what, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// From /proc/PID/stat, whose second word may hold anything, in brackets.
std::optional<ProcessFacts> facts_of(pid_t process) {
  // By their numbers in proc(5), less those in front of the closing bracket.
  constexpr size_t kParent = 4 - 3, kSession = 6 - 3, kStart = 22 - 3, kStack = 28 - 3;
  const std::string text = read_whole(process, "stat");
  const size_t bracket = text.rfind(") ");
  if (bracket == std::string::npos) return {};
  const std::vector<std::string_view> words =
      split(std::string_view(text).substr(bracket + 2), ' ');
  const bool has_ended = words.front() == "Z";  // and its parent has not asked how
  if (words.size() <= kStack || has_ended) return {};
  const auto number = [&](size_t at) { return parse_integer<uint64_t>(words[at]).value_or(0); };
  return ProcessFacts{{process, number(kStart)},
                      static_cast<pid_t>(number(kParent)),
                      static_cast<pid_t>(number(kSession)),
                      number(kStack)};
}

/// Whether the process was started with these variables; those it has set since do not show. False
/// where they may not be read.
bool was_told(pid_t process, const std::vector<std::string>& place) {
  const std::string environment = read_whole(process, "environ");
  const std::vector<std::string_view> entries = split(environment, '\0');
  return std::all_of(place.begin(), place.end(), [&](const std::string& entry) {
    return std::find(entries.begin(), entries.end(), entry) != entries.end();
  });
}

/// Whether its parent has ended and left it to another process. A process leaves its parent's
/// session only to begin one; of one that has begun a session nothing is known but that the host's
/// first process starts no ranks.
bool is_orphan(const ProcessFacts& process, const ProcessFacts& parent) {
  constexpr pid_t kFirstProcess = 1;
  return process.leads_session() ? parent.name.number == kFirstProcess
                                 : parent.session != process.session;
}

/// The process of which this one is a copy that runs no other program.
ProcessFacts original_of(ProcessFacts process) {
  for (;;) {
    const std::optional<ProcessFacts> parent = facts_of(process.parent);
    if (!parent || parent->stack == 0 || parent->stack != process.stack) return process;
    process = *parent;
  }
}

}  // namespace

bool ProcessName::lives() const {
  const std::optional<ProcessFacts> facts = facts_of(number);
  return facts && facts->name == *this;
}

bool Starter::started_with(const Starter& other) const {
  if (process.number != 0 && other.process.number != 0) {
    return process == other.process || process == other.rank || other.process == rank;
  }
  const bool one_lives = process.lives() || other.process.lives();
  return !one_lives && session != 0 && session == other.session;
}

bool of_one_job(const Origin& a, const Origin& b) {
  return a && b ? a->started_with(*b) : !a && !b;
}

std::string Starter::encode() const {
  std::string text;
  for (const uint64_t number :
       {static_cast<uint64_t>(rank.number), rank.start, static_cast<uint64_t>(process.number),
        process.start, static_cast<uint64_t>(session)}) {
    text += (text.empty() ? "" : " ") + std::to_string(number);
  }
  return text;
}

std::optional<Starter> Starter::decode(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  std::vector<uint64_t> numbers;
  for (const std::string_view word : words) {
    const auto number = parse_integer<uint64_t>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  if (numbers.size() != 5) return {};
  return Starter{{static_cast<pid_t>(numbers[0]), numbers[1]},
                 {static_cast<pid_t>(numbers[2]), numbers[3]},
                 static_cast<pid_t>(numbers[4])};
}

std::string Starter::text() const {
  if (process.number == 0) {
    return session == 0 ? "a process that is not known"
                        : "a process of session " + std::to_string(session) + " that has ended";
  }
  const std::string name = read_whole(process.number, "comm");
  return "process " + std::to_string(process.number) +
         (name.empty() ? "" : " (" + std::string(trim(name)) + ")");
}

Starter starter_of(pid_t rank, const std::vector<std::string>& place) {
  constexpr int kMostAncestors = 256;
  std::optional<ProcessFacts> own = facts_of(rank);
  Starter starter;
  for (int i = 0; own && i < kMostAncestors; ++i) {
    starter.rank = original_of(*own).name;
    starter.session = own->leads_session() ? 0 : own->session;
    const std::optional<ProcessFacts> parent = facts_of(own->parent);
    if (!parent || is_orphan(*own, *parent)) return starter;
    if (!was_told(parent->name.number, place)) {
      starter.process = original_of(*parent).name;
      return starter;
    }
    own = parent;
  }
  return {};
}

}  // namespace tutti::bootstrap
