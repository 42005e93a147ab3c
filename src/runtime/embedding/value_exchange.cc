#include "src/runtime/embedding/value_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// One end of an exchange: of the rank that has the shards, or of the one that has the samples.
struct ExchangeEnd {
  const ValueParties& parties;
  const BagClasses& classes;
  bool has_shards;
};

/// Visits (shard, row) for each bag that one rank and this one exchange, in the same order on both:
/// by shard, then by sample.
template <class Choose, class Visit>
void for_bags(const ExchangeEnd& end, int peer, Choose chosen, Visit visit) {
  const ValueParties& parties = end.parties;
  const auto& shards = parties.plan->shards;
  for (size_t s = 0; s < shards.size(); ++s) {
    if (shards[s].rank != (end.has_shards ? parties.place->rank : peer)) continue;
    const auto& list = end.has_shards ? end.classes.of_shards[s] : end.classes.of_samples[s];
    const int64_t first = end.has_shards ? parties.ids->first_sample[at(peer)] : 0;
    const int64_t last =
        end.has_shards ? parties.ids->first_sample[at(peer + 1)] : parties.ids->samples;
    for (int64_t row = first; row < last; ++row) {
      if (chosen(list[at(row)])) visit(s, at(row));
    }
  }
}

bool is_some(BagClass which) { return which != BagClass::kEmpty; }

}  // namespace

ValueTransfer::~ValueTransfer() {
  if (request_ != nullptr) tuttiRequestWait(request_);
}

void ValueTransfer::begin(const ValueParties& parties, const ValueMove& move,
                          const ShardValues& from, const ValueLine& line) {
  parties_ = parties;
  move_ = move;
  const EmbeddingWire& wire = *move.wire;
  send_counts_.clear();
  recv_counts_.clear();
  const auto chosen = [&](BagClass own) { return own == move_.which; };
  const bool to_samples = move.way == ValueWay::kToSamples;
  const ExchangeEnd sender{parties_, *parties_.classes, to_samples};
  const ExchangeEnd receiver{parties_, *parties_.classes, !to_samples};
  std::vector<float> values;
  for (int peer = 0; peer < parties_.place->ranks; ++peer) {
    const size_t before = values.size();
    for_bags(sender, peer, chosen, [&](size_t s, size_t row) {
      const size_t columns = at(parties_.plan->shards[s].columns());
      const float* source = &from[s][row * columns];
      values.insert(values.end(), source, source + columns);
    });
    send_counts_.push_back(values.size() - before);
    size_t arriving = 0;
    for_bags(receiver, peer, chosen,
             [&](size_t s, size_t) { arriving += at(parties_.plan->shards[s].columns()); });
    recv_counts_.push_back(arriving);
  }
  if (wire.refuses()) agree(values);
  send_.resize(values.size() * wire.bytes());
  recv_.resize(std::accumulate(recv_counts_.begin(), recv_counts_.end(), size_t{0}) * wire.bytes());
  wire.write(values, send_.data());
  submit(line);
}

void ValueTransfer::agree(const std::vector<float>& values) const {
  const EmbeddingPlace& place = *parties_.place;
  // The lowest rank whose values do not fit.
  int64_t mine = move_.wire->carries(values) ? place.ranks : place.rank, least = 0;
  expect_success(
      tuttiAllReduce(&mine, &least, 1, tuttiInt64, tuttiMin, place.comm, tuttiBlocking()),
      place.comm, "the question whether values fit the wire");
  require(least == place.ranks, "rank ", least,
          " has values that float16 cannot carry; let them saturate, or send bfloat16");
}

void ValueTransfer::submit(const ValueLine& line) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllToAllV;
  call.send = send_.data();
  call.recv = recv_.data();
  call.send_counts = send_counts_.data();
  call.recv_counts = recv_counts_.data();
  call.type = move_.wire->type();
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.priority = line.priority;
  expect_success(tuttiSubmit(&call, line.comm, line.stream, &options, &request_), line.comm,
                 "the exchange of values");
}

void ValueTransfer::end(ShardValues& to) {
  expect_success(tuttiRequestWait(std::exchange(request_, nullptr)), "the exchange of values");
  std::vector<float> values(recv_.size() / move_.wire->bytes());
  move_.wire->read(recv_.data(), values);
  const float* next = values.data();
  const auto chosen = [&](BagClass own) { return own == move_.which; };
  const ExchangeEnd receiver{parties_, *parties_.classes, move_.way == ValueWay::kToShards};
  for (int peer = 0; peer < parties_.place->ranks; ++peer) {
    for_bags(receiver, peer, chosen, [&](size_t s, size_t row) {
      const size_t columns = at(parties_.plan->shards[s].columns());
      std::copy_n(next, columns, &to[s][row * columns]);
      next += columns;
    });
  }
}

BagClasses all_urgent(const TablePlan& plan, const BatchIds& ids, int rank) {
  BagClasses classes;
  const auto of_size = [](int64_t size) { return size > 0 ? BagClass::kUrgent : BagClass::kEmpty; };
  for (size_t s = 0; s < plan.shards.size(); ++s) {
    auto& of_samples = classes.of_samples.emplace_back();
    for (const int64_t size : ids.shard_sizes[s]) of_samples.push_back(of_size(size));
    auto& of_shard = classes.of_shards.emplace_back();
    if (plan.shards[s].rank != rank) continue;
    for (int64_t bag = 0; bag < ids.arrived[s].bags(); ++bag) {
      of_shard.push_back(of_size(std::ssize(ids.arrived[s].of(bag))));
    }
  }
  return classes;
}

void tell_classes(const ValueParties& parties, BagClasses& classes) {
  std::vector<size_t> sent, received;
  std::vector<uint8_t> told, heard;
  const ExchangeEnd teller{parties, classes, true}, hearer{parties, classes, false};
  for (int peer = 0; peer < parties.place->ranks; ++peer) {
    const size_t before = told.size();
    for_bags(teller, peer, is_some, [&](size_t s, size_t row) {
      told.push_back(static_cast<uint8_t>(classes.of_shards[s][row]));
    });
    sent.push_back(told.size() - before);
    size_t arriving = 0;
    for_bags(hearer, peer, is_some, [&](size_t, size_t) { ++arriving; });
    received.push_back(arriving);
  }
  heard.resize(std::accumulate(received.begin(), received.end(), size_t{0}));
  expect_success(tuttiAllToAllV(told.data(), sent.data(), nullptr, heard.data(), received.data(),
                                nullptr, tuttiUint8, parties.place->comm, tuttiBlocking()),
                 parties.place->comm, "the exchange of what collides");
  size_t next = 0;
  for (int peer = 0; peer < parties.place->ranks; ++peer) {
    for_bags(hearer, peer, is_some, [&](size_t s, size_t row) {
      classes.of_samples[s][row] = static_cast<BagClass>(heard[next++]);
    });
  }
}

}  // namespace tutti::runtime
