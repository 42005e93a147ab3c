#include "tests/random/coverage.h"

#include <cstdio>

namespace tutti::random_calls {
namespace {

std::string size_class(uint64_t bytes) {
  if (bytes == 0) return "0 bytes";
  if (bytes <= 1024) return "<= 1 KiB";
  if (bytes <= 64 << 10) return "<= 64 KiB";
  return bytes <= 2 << 20 ? "<= 2 MiB" : "64 MiB";
}

const char* memory_of(const Job& job, const Call& call) {
  if (!call.allocated) return "ordinary";
  return job.of(call).registered ? "registered" : "from tuttiMemAlloc";
}

std::string two_digits(int number) { return (number < 10 ? " " : "") + std::to_string(number); }

}  // namespace

void Coverage::count(const std::string& collective, const std::string& group,
                     const std::string& value) {
  ++pairs_[group][value][collective];
}

void Coverage::add(const Job& job) {
  for (const Batch& batch : job.batches) {
    for (const Call& call : batch.calls) add(job, batch, call);
  }
}

void Coverage::add(const Job& job, const Batch& batch, const Call& call) {
  ++calls_;
  const reference::Problem& p = call.problem;
  const std::string name = name_of(call);
  ++collectives_[name];
  count(name, "ranks", two_digits(job.of(call).ranks()));
  const bool one_process = job.shape.process_count() == 1;
  count(name, "transport",
        std::string(name_of(job.network)) + (one_process ? ", threads" : ", processes"));
  count(name, "way", name_of(batch.way));
  count(name, "made by", name_of(job.of(call).origin));
  count(name, "made", name_of(job.of(call).mode));
  count(name, "ended by", name_of(job.of(call).ending));
  count(name, "batch of", batch.of_several() ? "several communicators" : "one");
  for (const Transfer& t : call.transfers) count(name, "type", reference::name_of(t.type));
  for (const Access& a : call.accesses) {
    count(name, "access", a.is_get ? "get" : a.reads_back ? "put and get" : "put");
    count(name, "size", size_class(a.bytes));
    count(name, "memory", job.of(call).ordinary_windows ? "ordinary" : "from tuttiMemAlloc");
  }
  if (call.kind == Kind::kOneSided) return;
  count(name, "called", batch.handles ? "with a handle" : "as a function");
  count(name, "priority", std::to_string(call.options.priority));
  count(name, "deadline", call.options.deadline ? "some" : "none");
  if (call.kind == Kind::kPairs) return;
  if (p.collective == reference::Collective::kBarrier) return;
  count(name, "type", reference::name_of(p.type));
  if (reference::reduces(p.collective)) count(name, "op", op_name(call));
  count(name, "place", call.in_place ? "in place" : "separate");
  count(name, "size", size_class(bytes_of(call)));
  if (reference::has_counts(p.collective)) {
    count(name, "shares", p.gap > 0 ? "with offsets" : "packed");
  }
  count(name, "memory", memory_of(job, call));
  count(name, "algorithm", call.options.algorithm.empty() ? "(chosen)" : call.options.algorithm);
  count(name, "order", p.canonical ? "deterministic" : "any");
}

std::string Coverage::table() const {
  std::string text;
  char cell[64];
  const auto row = [&](const std::string& title, const auto& numbers) {
    std::snprintf(cell, sizeof cell, "  %-26s", title.c_str());
    text += cell;
    for (const auto& [name, total] : collectives_) {
      const auto found = numbers.find(name);
      const uint64_t number = found == numbers.end() ? 0 : found->second;
      std::snprintf(cell, sizeof cell, " %14s", number == 0 ? "." : std::to_string(number).c_str());
      text += cell;
    }
    text += "\n";
  };
  std::snprintf(cell, sizeof cell, "  %-26s", "calls");
  text += cell;
  for (const auto& [name, total] : collectives_) {
    std::snprintf(cell, sizeof cell, " %14s", name.c_str());
    text += cell;
  }
  text += "\n";
  row("all", collectives_);
  for (const auto& [group, values] : pairs_) {
    text += " " + group + "\n";
    for (const auto& [value, numbers] : values) row("  " + value, numbers);
  }
  return text;
}

}  // namespace tutti::random_calls
