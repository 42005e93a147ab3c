#include "src/transport/stream/regions.h"

namespace tutti::transport::stream {
namespace {

constexpr uint32_t kPutRefused = 0, kGetRefused = 1;

bool inside(const transport::Region& region, uint64_t offset, uint64_t bytes) {
  return offset <= region.bytes && bytes <= region.bytes - offset;
}

}  // namespace

const char* Regions::begin_put(const FrameHeader& header, Landing& landing) {
  const auto found = regions_.find(header.channel);
  if (found == regions_.end()) return refuse(header, false);
  const transport::Region& region = found->second;
  if (!inside(region, header.position, header.length)) return "a put beyond the window's end";
  landing.memory = region.memory + header.position;
  if (header.signature == transport::OneSided::kNoSignal) return nullptr;
  if (header.signature >= region.signal_count) return "a signal that does not exist";
  landing.signal = &region.signals[header.signature];
  return nullptr;
}

const char* Regions::take_get(const FrameHeader& header) {
  if (outbound_.answers() >= transport::OneSided::kMaxGets) {
    return "more gets than one peer may have open";
  }
  const auto found = regions_.find(header.channel);
  if (found == regions_.end()) return refuse(header, true);
  const transport::Region& region = found->second;
  if (!inside(region, header.position, header.message_bytes)) {
    return "a get beyond the window's end";
  }
  Message* answer = pool_.take();
  answer->type = FrameType::kAnswer;
  answer->id = header.channel;
  answer->add_piece(region.memory + header.position, header.message_bytes);
  outbound_.push(answer);
  return nullptr;
}

const char* Regions::refuse(const FrameHeader& header, bool get) {
  // A put is many frames, and nobody waits: the peer hears it once.
  if (!get && !told_.insert(header.channel).second) return nullptr;
  if (told_.size() > kMostRefused) return "puts to more deregistered windows than a link remembers";
  Message* refusal = pool_.take();
  refusal->type = FrameType::kRefused;
  refusal->id = header.channel;
  refusal->signature = get ? kGetRefused : kPutRefused;
  outbound_.push(refusal);
  return nullptr;
}

const char* Regions::begin_answer(const FrameHeader& header, Message*& target) {
  if (gets_.empty()) return "an answer that nobody asked for";
  Message* first = gets_.front();
  const bool next = header.channel == first->id && header.position == first->moved &&
                    header.message_bytes == first->bytes;
  if (!next || header.length > first->left()) return "an answer to another question";
  target = first;
  return nullptr;
}

void Regions::finish_get() {
  Message* first = gets_.pop();
  received_.complete(first->ticket);
  pool_.give_back(first);
}

const char* Regions::take_refusal(const FrameHeader& header) {
  const bool get = header.signature != kPutRefused;
  if (get && (gets_.empty() || gets_.front()->id != header.channel || gets_.front()->moved > 0)) {
    return "a refusal that nobody asked for";
  }
  refused_.insert(header.channel);
  if (refused_.size() > kMostRefused) return "refusals for more windows than a link remembers";
  if (get) finish_get();
  return nullptr;
}

}  // namespace tutti::transport::stream
