// Shared memory with one peer, once both sides have introduced themselves.
//
// Owns:    the connected socket, the mapping of the peer's arena, and uses of what was imported.
// Threads: status(), read() and write() from any; import() locks.
// Errors:  kRemoteError once the peer is gone.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/transport/arena.h"
#include "src/transport/import.h"
#include "src/transport/link_imports.h"
#include "src/transport/memory_handle.h"
#include "src/transport/transport.h"
#include "transports/shm/liveness.h"

namespace tutti::transports::shm {

/// The rank at the other end. introduce() finds the process ids out.
struct PeerProcess {
  int rank = -1;
  std::string host_id;
  int64_t process = 0;  // as it sees itself, also in its memory handles
  pid_t visible = 0;    // as this process sees it; 0 if it does not

  /// "rank 3 (process 4711 on host alpha)".
  std::string text() const;
};

/// The memory that a link starts with.
struct ShmMemory {
  const transport::Arena& arena;  // of this rank, for the peer
  std::shared_ptr<transport::ImportCache> imports;
};

class ShmLink final : public transport::Link, public transport::Mapped {
 public:
  /// Exchanges arenas over a connection that passed the handshake, and finds out whether both sides
  /// can read and write each other's ordinary memory. Both sides call it at the same time.
  static Result<std::unique_ptr<ShmLink>> introduce(KeptFd socket, const PeerProcess& peer,
                                                    const ShmMemory& memory,
                                                    const WaitLimit& wait_limit);

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Mapped* mapped() override { return this; }
  Status status() const override;
  int liveness_fd() const override { return liveness_.fd(); }

  transport::Buffer arena() const override { return {arena_.data(), arena_.bytes()}; }
  /// The descriptor in the handle is opened through /proc or fetched with pidfd_getfd(): the peer
  /// needs no thread to serve it. Both need the same user and PID namespace.
  Result<transport::Buffer> import(std::string_view handle) override;
  void release(const std::byte* memory) override { imports_.release(memory); }
  /// They travel over the connection that passed the handshake.
  Status give_descriptor(int descriptor) override;
  Result<Fd> take_descriptor(int descriptor) override;
  Status read(transport::Buffer target, uint64_t source) override;
  Status write(uint64_t target, transport::ConstBuffer source) override;
  Status kill_peer() override { return liveness_.kill(); }

 private:
  ShmLink(KeptFd socket, const PeerProcess& peer, transport::Arena arena,
          std::shared_ptr<transport::ImportCache> imports, bool single_copy);

  Result<Fd> fetch(const transport::MemoryHandle& memory) const;
  Status explain(const Status& status, const char* what) const;

  const PeerProcess peer_;
  const Liveness liveness_;
  const transport::Arena arena_;
  transport::Capabilities capabilities_;
  transport::LinkImports imports_;
};

}  // namespace tutti::transports::shm
