// What a call would do, and how long it should take.
#include <algorithm>

#include "src/comm/communicator.h"
#include "src/plan/match.h"

namespace tutti::comm {

namespace {

/// Those by which this rank reaches the others.
std::string transports_of(const Membership& membership) {
  std::string names;
  for (const Profile& profile : membership.profiles()) {
    const std::string& name = profile.transport;
    if (name.empty() || names.find(name) != std::string::npos) continue;
    names += (names.empty() ? "" : "+") + name;
  }
  return names.empty() ? "no link" : names;
}

}  // namespace

std::string Communicator::explain(const Request& request) {
  std::string text = options_.origin.empty() ? "" : options_.origin + "\n";
  const bool shares = request.counts != nullptr;
  const bool in_place = shares ? comm::is_in_place(request, rank()) : is_in_place(request);
  const uint64_t count = shares ? longest_of(*request.counts) : request.count;
  const Reach reach = shares ? Reach{} : reach_of(request);
  const Result<const Prepared*> prepared =
      shares ? planner_->prepare_vectors(request, count, in_place, {})
             : planner_->prepare(request, in_place, reach);
  end_use_of_registered();  // nothing runs
  const std::string what = std::string(comm::name_of(request)) + " of " +
                           (shares ? "shares up to " : "") + std::to_string(count) + " " +
                           types::name_of(request.type) + " on " + std::to_string(ranks()) +
                           " ranks";
  if (!prepared.ok()) return text + what + ": " + std::string(prepared.status().message()) + "\n";
  const plan::Plan& plan = prepared.value()->plan;
  text += what + ": " + plan.algorithm + ", " + plan::name_of(reach.mode) + ", " +
          std::to_string(plan.slices) + (plan.slices == 1 ? " slice" : " slices") +
          (prepared.value()->fast ? ", superinstructions" : "") +
          (plan.passes.empty() ? "" : ", " + plan.passes) + ", over " +
          transports_of(*membership_) + (shares ? rounds_before(request, in_place) : "") + "\n";
  for (const select::Candidate& candidate : planner_->candidates(request, in_place)) {
    text += "  " + std::string(candidate.algorithm->name) + ": ";
    text += candidate.rejected.empty()
                ? "predicted " + std::to_string(candidate.predicted_ns / 1000) + " us" +
                      (candidate.overflows ? ", its slices hardly fit a frame" : "")
                : "not used: " + candidate.rejected;
    text += "\n";
  }
  if (device_calls_ != nullptr) {
    const EngineWish asked = planner_->options().engine;
    text += device_calls_->explain(request, in_place, asked, engine_for(asked)) + "\n";
  }
  return text;
}

// With the next rank, if there is one.
std::string Communicator::explain_transfer(bool is_send, uint64_t count, types::DataType type) {
  exec::Transfer transfer;
  transfer.peer = static_cast<uint32_t>((rank() + 1) % ranks());
  transfer.is_send = is_send;
  transfer.bytes = count * types::size_of(type);
  const bool is_near = membership_->peers()[transfer.peer].arena.valid();
  std::string text = std::string(is_send ? "send" : "recv") + " of " + std::to_string(count) + " " +
                     types::name_of(type) + " on " + std::to_string(ranks()) + " ranks: ";
  text += is_near ? "in pieces of " + std::to_string(exec::PairChannel::kPieceBytes) +
                        " bytes through the arena of the sender"
                  : "as a message";
  text += ", over " + transports_of(*membership_) + "\n";
  if (device_calls_ != nullptr) {
    const EngineWish asked = planner_->options().engine;
    text += device_calls_->explain(transfer, asked, engine_for(asked)) + "\n";
  }
  return text;
}

Result<double> Communicator::predict_ns(const Request& request) {
  const bool shares = request.counts != nullptr;
  return planner_->predict_ns(request,
                              shares ? comm::is_in_place(request, rank()) : is_in_place(request));
}

double Communicator::predict_ns(std::span<const exec::Transfer> transfers) const {
  uint64_t sent = 0, received = 0;
  for (const exec::Transfer& transfer : transfers) {
    (transfer.is_send ? sent : received) += transfer.bytes;
  }
  return planner_->predict_ns(transfers.size(), std::max(sent, received));
}

double Communicator::predict_ns(const Access& access) const {
  return planner_->predict_ns(1, access.bytes);
}

}  // namespace tutti::comm
