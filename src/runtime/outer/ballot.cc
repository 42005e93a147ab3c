#include "src/runtime/outer/ballot.h"

#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

OuterStream::OuterStream() {
  expect_success(tuttiStreamCreate(&stream_), nullptr, "tuttiStreamCreate");
}

OuterStream::~OuterStream() { tuttiStreamDestroy(stream_); }

tuttiRequest_t submit_behind(const tuttiCall_t& call, tuttiComm_t comm, const OuterStream& stream,
                             uint64_t timeout_ns) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic =
      call.collective == tuttiCollAllReduce || call.collective == tuttiCollReduceScatterV;
  options.timeout_ns = timeout_ns;
  tuttiRequest_t request = nullptr;
  expect_success(tuttiSubmit(&call, comm, stream.get(), &options, &request), comm,
                 "an exchange between outer steps");
  return request;
}

tuttiResult_t wait_for(tuttiRequest_t& request) {
  if (request == nullptr) return tuttiSuccess;
  return tuttiRequestWait(std::exchange(request, nullptr));
}

void VoteRound::begin(tuttiComm_t comm, const OuterStream& stream, const GatherVote& vote) {
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  comm_ = comm;
  own_ = {vote.epoch, vote.step, vote.fragment, vote.commit};
  all_.resize(at(ranks));
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllGather;
  call.send = &own_;
  call.recv = all_.data();
  call.count = sizeof(Words) / sizeof(int64_t);
  call.type = tuttiInt64;
  request_ = submit_behind(call, comm, stream);
}

GatherOutcome VoteRound::outcome() const {
  GatherOutcome outcome{true, ""};
  for (size_t r = 0; r < all_.size(); ++r) {
    const Words& theirs = all_[r];
    const bool same =
        theirs.epoch == own_.epoch && theirs.step == own_.step && theirs.fragment == own_.fragment;
    if (!same) {
      throw Error(ErrorKind::kRanksDiffer,
                  words("this rank exchanges fragment ", own_.fragment, " of step ", own_.step,
                        " in epoch ", own_.epoch, " and rank ", r, " fragment ", theirs.fragment,
                        " of step ", theirs.step, " in epoch ", theirs.epoch,
                        "; regroup all ranks to one epoch, and bring them to one step"),
                  tuttiInvalidUsage);
    }
    if (theirs.commit != 0 || !outcome.commit) continue;
    outcome = {false, words("rank ", r, " voted against fragment ", own_.fragment, " of step ",
                            own_.step, " in epoch ", own_.epoch)};
  }
  return outcome;
}

}  // namespace tutti::runtime
