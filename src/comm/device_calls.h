// Calls that a communicator's streams run from device to device: which they are, and their plans.
//
// They have numbers, rings and counters of their own, beside those of the host's lanes: a call goes
// either way, and which one is equal on all ranks, since it follows from what all ranks know of the
// call and of each other's devices. Reductions are among them where all ranks have kernels that
// fold (exec::DeviceRank::folds). Calls with counts of which each rank knows its own only go in
// transfers between pairs, as sends and receives do: a plan would need the longest share of all.
//
// Threads: one at a time. Errors: refusal() is no error: the calls go by the host then.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "src/comm/call_recorder.h"
#include "src/comm/device_places.h"
#include "src/comm/kernel_calls.h"
#include "src/comm/planner.h"
#include "src/comm/request.h"
#include "src/comm/transfers.h"
#include "src/exec/device.h"
#include "src/select/device_way.h"

namespace tutti::comm {

/// Frames nearly as long as a region, which also holds what pads their blocks, or of very long
/// calls as long as a lane's ring; nothing in cells; calls that need several frames in turns of
/// lanes.
plan::Tuning device_tuning(const exec::RingShape& ring);
/// The algorithms for streams of devices, each with one lane, whose ranks take turns alike.
std::vector<schedule::Algorithm> device_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                   int ranks);

/// Collective: the longest way between devices of the group, of which some may not reach each
/// other's memory (`are_apart`). Equal on all ranks.
using WayFinder = std::function<Result<select::DeviceWay>(bool are_apart)>;

/// Collective: a status that all ranks have, of which some may have kUnsupported. The reason of the
/// first of these, on all.
using Agreement = std::function<Status(const Status& mine)>;

/// The devices of a communicator, and their memory, as it knows them. `places` outlives its calls.
struct DeviceSurroundings {
  const DevicePlaces* places = nullptr;
  WayFinder find_way;
  EngineWish wish = EngineWish::kAuto;  // the communicator's
  Agreement agree;
  std::function<void(const std::string&)> warn{};  // in the log
  /// Of several hosts: the engine's numbers of ranks, by rank, of which so many are of this host;
  /// else empty.
  std::vector<uint32_t> numbers{};
  size_t near = 0;
};

/// A call of ranks on several hosts, as its streams and its host take it.
struct NetworkedCall {
  exec::StreamedCall streamed;
  std::shared_ptr<const exec::NetworkPlan> plan;
  exec::Call host;  // without a deadline
  diagnosis::DescribedCall described;
  std::string algorithm;
};

/// The same of transfers.
struct NetworkedTransfers {
  exec::StreamedTransfers streamed;
  TransferPart part;
};

class DeviceCalls {
 public:
  /// Calls go by the host, for this reason.
  explicit DeviceCalls(Status refusal) : refusal_(std::move(refusal)) {}
  /// Collective among all ranks, which are on one host. `planner` outlives its calls.
  static Result<std::unique_ptr<DeviceCalls>> open(exec::Device& device,
                                                   exec::DeviceRankOptions options,
                                                   Planner& planner,
                                                   std::unique_ptr<CallRecorder> recorder,
                                                   const DeviceSurroundings& around);

  /// Whether calls of this kind could go by streams from device to device, whatever the ranks. Of
  /// others one kernel may run them.
  static bool may_take(const Request& request);
  const Status& refusal() const { return refusal_; }
  /// `engine`: what the options of the call ask for, or the communicator's wish.
  bool takes(const Request& request, EngineWish engine) const;
  /// Why the request goes by the host; OK: it does not.
  Status unsupported_reason(const Request& request, EngineWish engine) const;
  /// The same of sends and receives.
  Status unsupported_transfers(std::span<const exec::Transfer> transfers, EngineWish engine) const;
  /// Why a request of ranks on several hosts goes by the host as a whole; OK: its streams run what
  /// is within a host, and the host hands slices to the network.
  Status objection_to_network(const Request& request, EngineWish engine) const;
  Status objection_to_network(std::span<const exec::Transfer> transfers, EngineWish engine) const;
  /// The request as the rank's streams take it, but for its deadline and who is told of its end.
  /// Valid until the next call of this.
  Result<exec::StreamedCall> call_of(const Request& request, bool in_place,
                                     const exec::StreamPlace& where);
  /// The same of one that objection_to_network() lets pass.
  Result<NetworkedCall> networked_call_of(const Request& request, bool in_place,
                                          const exec::StreamPlace& where);
  /// As exec::DeviceRank's, by the communicator's numbers.
  std::optional<uint32_t> find_late();
  /// Whether a request that is taken goes as transfers between pairs: its counts are private, or it
  /// is a long gather or scatter, and memory is registered, where only transfers can be direct.
  /// Equal on all ranks.
  bool goes_by_transfers(const Request& request) const;
  /// The same of such a request: all ranks know the kind of the call, and each pair compares the
  /// shares that it exchanges.
  exec::StreamedTransfers shares_of(const Request& request, const exec::StreamPlace& where) const;
  /// The same of sends and receives, which progress together.
  exec::StreamedTransfers call_of(std::span<const exec::Transfer> transfers, EngineWish asked,
                                  std::span<const exec::StreamPlace> where) const;
  /// Of either, whose ranks are on several hosts: what the streams and the host take. Without the
  /// crossing.
  NetworkedTransfers networked(exec::StreamedTransfers call, uint64_t deadline_ns) const;
  exec::DeviceRank& rank() { return *rank_; }
  /// Such a request on a stream of a device that goes by the host since its options ask for that:
  /// peers whose options ask for something else learn of it. An error has failed the communicator.
  Status declare_by_host(const Request& request);
  Status declare_by_host(std::span<const exec::Transfer> transfers);
  /// Collective (exec::DeviceRank::share); refusal(), where calls go by the host.
  Result<std::shared_ptr<const exec::PeerMemory>> share(std::byte* memory, uint64_t bytes);
  /// To the log, in the name of the rank: which rings lie in host memory, if some do.
  /// And why the switch between devices folds nothing, if somebody wishes that it does.
  void tell(Logger& log, const std::string& rank) const;
  /// Finds out whether a peer has given up. Threads: any.
  void look() const {
    if (rank_ != nullptr) rank_->look();
  }
  /// Its calls, in a file of their own; null: refused. The first error goes to the log with them.
  CallRecorder* recorder() const { return calls_.get(); }
  /// How, or why not, where the options ask for an engine. A line.
  std::string explain(const Request& request, bool in_place, EngineWish asked, EngineWish engine);
  std::string explain(std::span<const exec::Transfer> transfers, EngineWish asked,
                      EngineWish engine);

 private:
  DeviceCalls(std::unique_ptr<exec::DeviceRank> rank, std::unique_ptr<CallRecorder> recorder,
              const DeviceSurroundings& around, int self);
  Status plan_with(Planner& planner, const Agreement& agree);
  void plan_whole_calls(Planner& planner);
  Status plan_levels(Planner& planner, PlanEngine engine, const Agreement& agree);
  EngineWish wish_for(EngineWish asked) const { return asked == EngineWish::kAuto ? wish_ : asked; }
  PlanEngine engine_of(const PlannerOptions& planning);
  Status objection_to_kind(const Request& request, EngineWish engine) const;
  /// The engine that runs the request as a whole; null: streams do.
  WholeCalls* find_whole(const Request& request, EngineWish engine) const;
  Status objection_of(WholeCalls& one, const Request& request, EngineWish engine) const;
  Result<WholeCalls*> choose_whole(const Request& request, bool captured);
  Status pass_over(const WholeCalls& one, const Status& why, EngineWish asked,
                   const Request& request);
  Status objection_to_asked(const Request& request) const;
  std::optional<SharedPlaces> shared_places(const PlannerOptions& planning,
                                            const plan::Tuning& tuning) const;
  bool may_share_places(const Request& request) const;
  Result<RegisteredCall> find_direct(const Request& request, bool in_place);
  Status objection_to_direct(const Request& request, bool in_place);
  Status weigh_direct(const Request& request, bool in_place) const;
  bool is_networked() const { return !numbers_.empty(); }
  Result<WholeCall> take_by_streams(const Request& request, bool in_place);
  /// Of the buffer whose counts all ranks know; empty: its parts are equal, or a rank knows its
  /// own.
  static std::vector<exec::BufferPart> parts_of(const Request& request);
  exec::StreamedCall streamed_call(const Request& request, const WholeCall& ready) const;
  std::string explain_network(const Request& request, bool in_place, EngineWish engine);
  std::string network_text(const plan::Plan& plan);
  diagnosis::DescribedCall describe(const Request& request) const;
  Result<const Prepared*> prepare(const Request& request, bool in_place, BufferReach reach);
  std::string explain_direct(const Request& request, bool in_place);
  std::string explain_rooted(const Request& request) const;
  std::string objections(const Request& request, EngineWish engine, const WholeCalls* taken) const;
  Status room_for_pairs() const;
  Status objection_to_transfers(EngineWish engine) const;
  bool all_near(std::span<const exec::Transfer> transfers) const;
  void set_transfers(exec::StreamedTransfers& call,
                     std::span<const exec::Transfer> transfers) const;
  Status objection_to_rooted(const Request& request) const;
  void find_registered(exec::StreamedTransfers& call) const;
  Status objection_to_reading(const exec::StreamedTransfers& call) const;
  uint32_t rank_of(uint32_t number) const;
  std::string explain_transfers(const exec::StreamedTransfers& call);
  std::string explain_shares(const Request& request);
  std::string rings() const;
  std::string multicast_text(const Request& request, bool in_place) const;

  Status refusal_;
  std::vector<uint32_t> numbers_;                   // DeviceSurroundings::numbers
  std::vector<bool> near_;                          // by rank, if there are numbers
  Status folds_, pairs_;                            // of all ranks
  std::unique_ptr<CallRecorder> calls_;             // outlives the rank
  std::unique_ptr<exec::DeviceRank> rank_;          // null: refused
  std::vector<schedule::Algorithm> algorithms_;     // of which the plans have a view
  EnginePlans* plans_ = nullptr;                    // the planner's; null: refused
  std::vector<std::unique_ptr<WholeCalls>> whole_;  // the first that does not object takes a call
  const DevicePlaces* places_ = nullptr;            // null: refused
  uint64_t frame_bytes_ = 0;
  int self_ = 0;
  EngineWish wish_ = EngineWish::kAuto;
  MulticastWish multicast_ = MulticastWish::kOff;
  // Objections to reading the memory of peers, by collective, type, operation, count, and in place.
  using DirectKey =
      std::tuple<schedule::Collective, types::DataType, types::ReduceOp, uint64_t, bool>;
  std::map<DirectKey, Status> direct_;
  std::function<void(const std::string&)> warn_;
  std::set<std::string> told_;  // why an engine that somebody wishes for ran no call
  select::DeviceWay way_ = select::DeviceWay::kDirect;
};

}  // namespace tutti::comm
