#include "perf/collectives/pairs.h"

#include "perf/collectives/datatypes.h"

namespace tutti::perf {
namespace {

/// Sends and receives that run together.
class Group {
 public:
  Group(const Communicator& communicator, tuttiDataType_t type)
      : communicator_(communicator), type_(type), first_error_(tuttiGroupStart()) {}

  void send(const void* data, size_t count, int peer) {
    note(tuttiSend(data, count, type_, peer, communicator_.comm(), communicator_.stream()));
  }
  void recv(void* data, size_t count, int peer) {
    note(tuttiRecv(data, count, type_, peer, communicator_.comm(), communicator_.stream()));
  }
  /// The first error of the group.
  tuttiResult_t run() {
    note(tuttiGroupEnd());
    return first_error_;
  }

 private:
  void note(tuttiResult_t result) {
    if (first_error_ == tuttiSuccess) first_error_ = result;
  }

  const Communicator& communicator_;
  const tuttiDataType_t type_;
  tuttiResult_t first_error_;
};

}  // namespace

tuttiResult_t enqueue_sendrecv(const Operation& o, const void* send, void* recv,
                               const Communicator& communicator) {
  Group group(communicator, o.type);
  group.send(send, o.count, (o.rank + 1) % o.ranks);
  group.recv(recv, o.count, (o.rank + o.ranks - 1) % o.ranks);
  return group.run();
}

tuttiResult_t enqueue_hypercube(const Operation& o, const void* send, void* recv,
                                const Communicator& communicator) {
  const size_t block_bytes = o.count * data_type(o.type).bytes;
  const auto block = [&](int index) {
    return static_cast<std::byte*>(recv) + static_cast<size_t>(index) * block_bytes;
  };
  // My own block goes to its place as a message to myself, in the order of the stream.
  if (send != block(o.rank) && o.count > 0) {
    Group group(communicator, o.type);
    group.send(send, o.count, o.rank);
    group.recv(block(o.rank), o.count, o.rank);
    if (const tuttiResult_t result = group.run(); result != tuttiSuccess) return result;
  }
  for (int blocks = 1; blocks < o.ranks; blocks *= 2) {
    const int peer = o.rank ^ blocks;
    const int mine = o.rank & ~(blocks - 1);
    const size_t count = o.count * static_cast<size_t>(blocks);
    Group group(communicator, o.type);
    group.send(block(mine), count, peer);
    group.recv(block(mine ^ blocks), count, peer);
    if (const tuttiResult_t result = group.run(); result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}

}  // namespace tutti::perf
