#include "src/comm/call_buffers.h"

#include "src/comm/host_survey.h"

namespace tutti::comm {
namespace {

// Calls shorter than this stay in cells and slots even where buffers are addressable: two entries
// cost more than one small copy.
constexpr uint64_t kDirectBytes = 8 << 10;

// The shortest that the ranks of a host measure.
constexpr uint64_t kLeastRead = HostSurvey::kLeastBytes;

}  // namespace

schedule::Shape shape_of_buffers(const Request& request, int ranks) {
  schedule::Shape shape;
  shape.collective = request.collective;
  shape.ranks = ranks;
  shape.root = request.root;
  return shape;
}

CallBuffers::CallBuffers(const Membership& membership, MemoryTable& memory,
                         std::optional<uint64_t> single_copy_bytes)
    : membership_(membership),
      memory_(memory),
      single_copy_bytes_(single_copy_bytes),
      direct_(membership.all_memory() && membership.domain_size() > 1),
      reads_peers_(membership.single_copy() && single_copy_bytes != 0) {}

BufferDistance CallBuffers::placement_of(const Request& request) const {
  const schedule::Traits& traits = schedule::traits_of(request.collective);
  const bool both = traits.input.held_by(membership_.rank(), request.root) &&
                    traits.output.held_by(membership_.rank(), request.root);
  const uint64_t part =
      static_cast<uint64_t>(membership_.rank()) * request.count * types::size_of(request.type);
  if (traits.nests(schedule::Space::kInput)) return {both, uintptr_t{0} - part};
  if (traits.nests(schedule::Space::kOutput)) return {both, part};
  return {both, 0};
}

uint64_t CallBuffers::output_bytes(const Request& request) const {
  const bool parts = schedule::traits_of(request.collective).output.parts;
  const uint64_t blocks = parts ? static_cast<uint64_t>(membership_.ranks()) : 1;
  return request.count * types::size_of(request.type) * blocks;
}

bool CallBuffers::is_always_staged(uint64_t output_bytes) const {
  return output_bytes < kDirectBytes || membership_.domain_size() == 1;
}

// Follows from the arguments, and from which memory was registered: all ranks must have registered
// the buffers of a call, or none.
BufferReach CallBuffers::reach_of(const Request& request) {
  const uint64_t out = output_bytes(request);
  if (is_always_staged(out)) return {};
  if (direct_) return {plan::Mode::kDirect, false};
  if (memory_.has_registered() && use_registered(request)) return {plan::Mode::kDirect, true};
  return {may_read(request, out) ? plan::Mode::kSingleCopy : plan::Mode::kStaged, false};
}

bool CallBuffers::may_read(const Request& request, uint64_t output_bytes) const {
  if (!reads_peers_) return false;
  if (single_copy_bytes_) return output_bytes >= *single_copy_bytes_;
  return output_bytes >= kLeastRead && !schedule::reduces(request.collective);
}

std::string CallBuffers::why_not_read() const {
  if (single_copy_bytes_ == 0 || direct_ || membership_.domain_size() == 1) return "";
  const std::string why = membership_.why_no_single_copy();
  if (why.empty()) return "";
  return (single_copy_bytes_ ? "TUTTI_SINGLE_COPY_BYTES is without effect: "
                             : "single copy: no, ") +
         why;
}

uint64_t CallBuffers::send_elements(const Request& request) const {
  if (request.counts != nullptr) return input_elements_of(*request.counts, membership_.rank());
  return schedule::input_elements(shape_of_buffers(request, membership_.ranks()),
                                  membership_.rank(), request.count);
}

bool CallBuffers::use_registered(const Request& request) {
  const schedule::Shape shape = shape_of_buffers(request, membership_.ranks());
  const int rank = membership_.rank();
  const uint64_t size = types::size_of(request.type);
  const uint64_t send_bytes = schedule::input_elements(shape, rank, request.count) * size;
  const uint64_t recv_bytes = schedule::output_elements(shape, rank, request.count) * size;
  return memory_.use({static_cast<const std::byte*>(request.send), send_bytes},
                     {static_cast<const std::byte*>(request.recv), recv_bytes});
}

}  // namespace tutti::comm
