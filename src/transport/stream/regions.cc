#include "src/transport/stream/regions.h"

namespace tutti::transport::stream {
namespace {

bool inside(const transport::Region& region, uint64_t offset, uint64_t bytes) {
  return offset <= region.bytes && bytes <= region.bytes - offset;
}

}  // namespace

void Regions::expose(Id id, const transport::Region& region, const KeyedPlace* place) {
  regions_[id] = region;
  if (place == nullptr) return;
  placed_.insert(id);
  FrameHeader header;
  header.type = FrameType::kKey;
  header.channel = id;
  header.message_bytes = region.bytes;
  outbound_.push_control(header, place);
}

bool Regions::withdraw(Id id) {
  regions_.erase(id);
  if (placed_.erase(id) > 0) {
    ending_.insert(id);
    FrameHeader header;
    header.type = FrameType::kWithdraw;
    header.channel = id;
    outbound_.push_control(header);
  }
  return !ending_.contains(id);
}

// An answer on its way to a get finds the get, and nothing to write to.
void Regions::end(transport::EpochId epoch) {
  const auto of_epoch = [&](const auto& id) { return epoch.has(id); };
  std::erase_if(regions_, [&](const auto& entry) { return epoch.has(entry.first); });
  std::erase_if(placed_, of_epoch);
  std::erase_if(ending_, of_epoch);
  std::erase_if(refused_, of_epoch);
  for (Message* get = gets_.front(); get != nullptr; get = get->next) {
    if (epoch.has(get->id)) get->drop();
  }
}

void Regions::end_there(transport::EpochId epoch) {
  std::erase_if(told_, [&](const Id& id) { return epoch.has(id); });
}

const char* Regions::learn(const FrameHeader& header, const KeyedPlace& place) {
  if (outbound_.regions().size() >= kMostPlaced) return "more windows than a link remembers";
  outbound_.regions().learn(header.channel, header.message_bytes, place);
  return nullptr;
}

// Reads of it end as if the peer had refused them.
void Regions::forget_peers(Id id) {
  if (outbound_.forget_region(id)) refused_.insert(id);
}

// The bytes have no other way to be judged by: a transport that lets a peer write beyond what was
// exposed is at fault itself. The signal is judged as that of any put.
const char* Regions::take_placed(const FrameHeader& header, uint64_t bytes) {
  FrameHeader put = header;
  put.type = FrameType::kPut;
  put.length = static_cast<uint32_t>(bytes);
  if (bytes > kMaxPlacedBytes) return "a placed frame is longer than allowed";
  Landing landing;
  if (const char* wrong = begin_put(put, landing); wrong != nullptr) return wrong;
  raise(landing);
  return nullptr;
}

void Regions::raise(const Landing& landing) {
  if (landing.signal == nullptr) return;
  // The counter has no other writer. A thread that sees it sees the bytes.
  landing.signal->store(landing.signal->load(std::memory_order_relaxed) + 1,
                        std::memory_order_release);
}

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
  if (first->proves) outbound_.regions().note_answer(first->id);
  if (first->ticket != 0) received_.complete(first->ticket);
  pool_.give_back(first);
}

const char* Regions::take_refusal(const FrameHeader& header) {
  const bool get = header.signature != kPutRefused;
  if (get && (gets_.empty() || gets_.front()->id != header.channel)) {
    return "a refusal that nobody asked for";
  }
  refused_.insert(header.channel);
  if (refused_.size() > kMostRefused) return "refusals for more windows than a link remembers";
  if (get) finish_get();
  return nullptr;
}

}  // namespace tutti::transport::stream
