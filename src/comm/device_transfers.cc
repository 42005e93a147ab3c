// The part of DeviceCalls that deals with transfers, which are sends and receives and the shares of
// v-collectives whose counts are private; and with the parts of those whose counts are public.
#include <algorithm>
#include <utility>

#include "src/comm/device_calls.h"
#include "src/comm/device_texts.h"

namespace tutti::comm {
namespace {

/// The shares of a v-collective whose counts are private, as sends and receives.
std::vector<exec::Transfer> transfers_of(const Request& request) {
  const CountView& view = *request.counts;
  const uint64_t element = types::size_of(request.type);
  std::vector<exec::Transfer> transfers;
  const auto add = [&](uint32_t peer, bool is_send) {
    const uint64_t* counts = is_send ? view.send_counts : view.recv_counts;
    const uint64_t* offsets = is_send ? view.send_offsets : view.recv_offsets;
    auto* const buffer =
        static_cast<std::byte*>(is_send ? const_cast<void*>(request.send) : request.recv);
    exec::Transfer transfer;
    transfer.peer = peer;
    transfer.is_send = is_send;
    transfer.bytes = counts[peer] * element;
    if (transfer.bytes > 0)
      transfer.data = buffer + offset_of(view, counts, offsets, peer) * element;
    transfer.type = request.type;
    transfers.push_back(transfer);
  };
  for (uint32_t peer = 0; peer < view.ranks; ++peer) {
    add(peer, true);
    add(peer, false);
  }
  return transfers;
}

bool is_rooted(const Request& request) {
  return request.collective == schedule::Collective::kGather ||
         request.collective == schedule::Collective::kScatter;
}

/// A gather or scatter, as sends and receives.
std::vector<exec::Transfer> rooted_transfers_of(const Request& request, int rank, int ranks) {
  const uint64_t bytes = request.count * types::size_of(request.type);
  const bool gathers = request.collective == schedule::Collective::kGather;
  std::vector<exec::Transfer> transfers;
  const auto add = [&](int peer, bool is_send, uint64_t offset) {
    auto* const buffer =
        static_cast<std::byte*>(is_send ? const_cast<void*>(request.send) : request.recv);
    transfers.push_back(
        {static_cast<uint32_t>(peer), is_send, buffer + offset, bytes, request.type});
  };
  add(request.root, gathers, 0);
  if (rank != request.root) return transfers;
  for (int peer = 0; peer < ranks; ++peer) {
    add(peer, !gathers, static_cast<uint64_t>(peer) * bytes);
  }
  return transfers;
}

}  // namespace

std::vector<exec::BufferPart> DeviceCalls::parts_of(const Request& request) {
  if (request.counts == nullptr || has_private_counts(request)) return {};
  const CountView& view = *request.counts;
  const uint64_t* const counts = view.public_counts();
  const uint64_t* const offsets =
      view.send_counts == nullptr ? view.recv_offsets : view.send_offsets;
  const uint64_t element = types::size_of(request.type);
  std::vector<exec::BufferPart> parts;
  uint64_t packed = 0;
  for (uint32_t rank = 0; rank < view.ranks; ++rank) {
    const uint64_t begin = offsets != nullptr ? offsets[rank] : packed;
    parts.push_back({begin * element, counts[rank] * element});
    packed += counts[rank];
  }
  return parts;
}

bool DeviceCalls::goes_by_transfers(const Request& request) const {
  if (has_private_counts(request)) return true;
  return places_ != nullptr && places_->mark() != 0 && objection_to_rooted(request).ok();
}

/// Why a request that all ranks know is no transfers, whatever is registered.
Status DeviceCalls::objection_to_rooted(const Request& request) const {
  if (!is_rooted(request)) return Status::unsupported("it is no gather or scatter");
  const EngineWish engine = wish_for(plans_->options_of(request.extras).engine);
  exec::StreamedTransfers call;
  call.engines_alone = engine == EngineWish::kCopyEngine;
  if (Status why = objection_to_reading(call); !why.ok()) return why;
  if (!pairs_.ok()) return pairs_;
  if (find_whole(request, engine) != nullptr) return Status::unsupported("an engine runs it alone");
  const uint64_t bytes = request.count * types::size_of(request.type);
  if (bytes <= rank_->piece_bytes()) {
    return Status::unsupported(std::to_string(rank_->piece_bytes()) +
                               " bytes of a block, or less, are staged in one slot");
  }
  return {};
}

std::string DeviceCalls::explain_rooted(const Request& request) const {
  const Status why = objection_to_rooted(request);
  if (!why.ok())
    return "; in registered memory staged as well, since " + std::string(why.message());
  return "; where memory is registered by transfers between pairs of ranks, direct from buffers "
         "that lie in it, also in graphs";
}

Status DeviceCalls::room_for_pairs() const {
  const bool is_alone = is_networked() && std::count(near_.begin(), near_.end(), true) == 1;
  if (is_alone || rank_->pair_bytes() > 0) return {};
  return Status::unsupported("there is no room for slots, or no peer");
}

Status DeviceCalls::objection_to_transfers(EngineWish engine) const {
  if (!refusal_.ok()) return refusal_;
  if (engine == EngineWish::kHost) return Status::unsupported("the options ask for that");
  return {};
}

bool DeviceCalls::all_near(std::span<const exec::Transfer> transfers) const {
  return !is_networked() || std::all_of(transfers.begin(), transfers.end(),
                                        [&](const auto& one) { return near_[one.peer]; });
}

Status DeviceCalls::unsupported_transfers(std::span<const exec::Transfer> transfers,
                                          EngineWish engine) const {
  if (Status status = objection_to_transfers(engine); !status.ok()) return status;
  if (!all_near(transfers)) return Status::unsupported(kApart);
  return room_for_pairs();
}

// Those with ranks of other hosts have their slots in the bounce buffer.
Status DeviceCalls::objection_to_network(std::span<const exec::Transfer> transfers,
                                         EngineWish engine) const {
  if (Status status = objection_to_transfers(engine); !status.ok()) return status;
  if (!is_networked()) return Status::unsupported("all ranks are on one host");
  const bool needs_slots = std::any_of(transfers.begin(), transfers.end(), [&](const auto& one) {
    return near_[one.peer] && one.peer != static_cast<uint32_t>(self_);
  });
  return needs_slots ? room_for_pairs() : Status();
}

exec::StreamedTransfers DeviceCalls::shares_of(const Request& request,
                                               const exec::StreamPlace& where) const {
  exec::StreamedTransfers call;
  call.where = {where};
  set_transfers(call, has_private_counts(request)
                          ? transfers_of(request)
                          : rooted_transfers_of(request, self_, plans_->ranks()));
  call.described = describe(request);
  call.engines_alone = call.described->engine == EngineWish::kCopyEngine;
  find_registered(call);
  const std::vector<uint64_t>& places = call.registered.places;
  if (std::any_of(places.begin(), places.end(), [](uint64_t place) { return place != 0; })) {
    calls_->tell_direct(request);
  }
  call.label = calls_->label(request);
  call.call.signature = call.call.far_signature = signature_of(*call.described);
  call.call.what = name_of(request);
  return call;
}

exec::StreamedTransfers DeviceCalls::call_of(std::span<const exec::Transfer> transfers,
                                             EngineWish asked,
                                             std::span<const exec::StreamPlace> where) const {
  exec::StreamedTransfers call;
  call.where.assign(where.begin(), where.end());
  call.engines_alone = asked == EngineWish::kCopyEngine;
  set_transfers(call, transfers);
  find_registered(call);
  call.label = calls_->label(transfers);
  call.call.what = "send/recv";
  return call;
}

void DeviceCalls::set_transfers(exec::StreamedTransfers& call,
                                std::span<const exec::Transfer> transfers) const {
  for (exec::Transfer transfer : transfers) {
    const bool is_near = !is_networked() || near_[transfer.peer];
    if (is_networked()) transfer.peer = numbers_[transfer.peer];
    (is_near ? call.transfers : call.far).push_back(transfer);
  }
}

/// Why no transfer of the call is read where it lies, wherever that is. Equal at both ends.
Status DeviceCalls::objection_to_reading(const exec::StreamedTransfers& call) const {
  if (is_networked()) return Status::unsupported("the ranks are on several hosts");
  if (!folds_.ok()) return folds_;
  if (!rank_->rings().empty()) {
    return Status::unsupported("not all devices reach each other's memory");
  }
  if (call.engines_alone || wish_ == EngineWish::kCopyEngine) {
    return Status::unsupported("the engine copy_engine starts no kernel");
  }
  return {};
}

void DeviceCalls::find_registered(exec::StreamedTransfers& call) const {
  if (!objection_to_reading(call).ok()) return;
  call.registered = places_->find(call.transfers, self_, rank_->piece_bytes());
}

// At the deadline the host's part knows best who is late. The streams may have something left when
// it is over.
NetworkedTransfers DeviceCalls::networked(exec::StreamedTransfers call,
                                          uint64_t deadline_ns) const {
  constexpr uint64_t kBehindTheHostNs = 1'000'000'000;
  NetworkedTransfers made;
  if (deadline_ns != kNoDeadline) call.call.deadline_ns = deadline_ns + kBehindTheHostNs;
  exec::BouncedTransfers& bounced = made.part.bounced;
  bounced.pairs = std::make_shared<const exec::BouncePairs>(call.far, plans_->ranks());
  bounced.transfers = call.far;
  for (exec::Transfer& transfer : bounced.transfers) transfer.peer = rank_of(transfer.peer);
  made.part.call = call.call;
  made.part.shares_of = call.described;
  made.streamed = std::move(call);
  return made;
}

Status DeviceCalls::declare_by_host(std::span<const exec::Transfer> transfers) {
  exec::StreamedTransfers call;
  set_transfers(call, transfers);
  return rank_->declare(call.transfers);
}

std::string DeviceCalls::explain_transfers(const exec::StreamedTransfers& call) {
  if (call.far.empty()) {
    const Status staged = objection_to_reading(call);
    const std::string reads =
        staged.ok()
            ? "from registered memory direct, in transfers of more than " +
                  std::to_string(rank_->piece_bytes()) + " bytes"
            : "from registered memory staged as well, since " + std::string(staged.message());
    return "on device memory: by copy engines, between pairs of ranks, " +
           text_of(rank_->count(call, nullptr)) + "; " + reads + rings();
  }
  const exec::BouncePairs pairs(call.far, plans_->ranks());
  return "on device memory: by streams within hosts and messages between them, between pairs of "
         "ranks, through a bounce buffer of " +
         std::to_string(pairs.bytes()) + " bytes of pinned memory, " +
         text_of(rank_->count(call, &pairs)) + rings();
}

std::string DeviceCalls::explain_shares(const Request& request) {
  exec::StreamedTransfers call;
  call.engines_alone = describe(request).engine == EngineWish::kCopyEngine;
  set_transfers(call, transfers_of(request));
  find_registered(call);
  return explain_transfers(call);
}

std::string DeviceCalls::explain(std::span<const exec::Transfer> transfers, EngineWish asked,
                                 EngineWish engine) {
  const Status why = unsupported_transfers(transfers, engine);
  if (!why.ok() && !objection_to_network(transfers, engine).ok()) return not_by_streams(why, asked);
  exec::StreamedTransfers call;
  call.engines_alone = engine == EngineWish::kCopyEngine;
  set_transfers(call, transfers);
  find_registered(call);
  return explain_transfers(call);
}

}  // namespace tutti::comm
