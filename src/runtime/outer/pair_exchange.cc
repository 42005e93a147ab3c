#include "src/runtime/outer/pair_exchange.h"

#include "src/runtime/refuse.h"

namespace tutti::runtime {

void PairExchange::add_call(tuttiCollective_t collective, const void* send, void* recv,
                            size_t bytes) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = bytes;
  call.type = tuttiUint8;
  call.root = partner_;
  requests_.push_back(submit_behind(call, comm_, stream_, timeout_ns_));
}

void PairExchange::begin(const OuterGroup& group, int partner, const GatherVote& vote,
                         std::span<const float> values) {
  comm_ = group.comm;
  partner_ = partner;
  own_words_ = {vote.epoch, vote.step, vote.fragment, vote.commit};
  own_.assign(values.begin(), values.end());
  refused_.clear();
  is_pending_ = true;
  const size_t bytes = own_.size() * sizeof(float);
  tuttiGroupStart();
  try {
    add_call(tuttiCollSend, &own_words_, nullptr, sizeof own_words_);
    add_call(tuttiCollRecv, nullptr, &their_words_, sizeof their_words_);
    add_call(tuttiCollSend, own_.data(), nullptr, bytes);
    add_call(tuttiCollRecv, nullptr, theirs_.data(), bytes);
  } catch (const Error& error) {
    refused_ = error.what();
    tuttiGroupDiscard();
    return;
  }
  if (tuttiGroupEnd() != tuttiSuccess) refused_ = tuttiGetLastError(comm_);
}

tuttiResult_t PairExchange::wait() {
  tuttiResult_t result = tuttiSuccess;
  for (tuttiRequest_t& request : requests_) {
    const tuttiResult_t own = wait_for(request);
    if (result == tuttiSuccess) result = own;
  }
  requests_.clear();
  is_pending_ = false;
  return result;
}

std::string PairExchange::finish() {
  const tuttiResult_t result = wait();
  if (!refused_.empty()) return refused_;
  if (result != tuttiSuccess) {
    return words("the exchange with rank ", partner_,
                 " failed: ", std::string_view(tuttiGetLastError(comm_)));
  }
  const bool same = own_words_.epoch == their_words_.epoch &&
                    own_words_.step == their_words_.step &&
                    own_words_.fragment == their_words_.fragment;
  if (!same) {
    throw Error(
        ErrorKind::kRanksDiffer,
        words("this rank is at step ", own_words_.step, " of epoch ", own_words_.epoch,
              " and its partner, rank ", partner_, ", at step ", their_words_.step, " of epoch ",
              their_words_.epoch, "; regroup all ranks to one epoch, and bring them to one step"),
        tuttiInvalidUsage);
  }
  if (own_words_.commit == 0) return "this rank voted against its exchange";
  if (their_words_.commit == 0) return words("rank ", partner_, " voted against the exchange");
  return "";
}

void PairExchange::drop() {
  if (is_pending_) wait();
}

}  // namespace tutti::runtime
