// Memory that a peer registered, as it lies here: what stands behind Mapped::import().
//
// Owns:    an ImportCache its mappings; an Import one use of one, which it gives back, so that
//          neither mapping nor descriptor outlives what it was for. The link outlives its imports,
//          and the cache its links.
// Threads: a cache locks inside; an Import is a value.
// Errors:  kInvalidArgument for what is no handle; else as the caller's way to open it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/base/io.h"
#include "src/base/mutex.h"
#include "src/transport/arena.h"
#include "src/transport/memory_handle.h"
#include "src/transport/transport.h"

namespace tutti::transport {

/// The files of peers that this process has mapped: each once, whichever links use it, for as long
/// as somebody does. It is the process's (endpoint.h, imports_of()).
class ImportCache {
 public:
  using Open = std::function<Result<Fd>()>;

  /// `owner` is the peer's process as this one sees it: what another process calls the same file is
  /// opened anew, so that no peer gets at another one's memory by its name alone. `open` finds the
  /// file's descriptor where it is not mapped yet; it may not call the cache.
  Result<Buffer> import(pid_t owner, const MemoryHandle& named, const Open& open);
  void release(const std::byte* memory);

 private:
  struct ImportedFile {
    Arena arena;
    int users = 0;
  };
  using FileOfOwner = std::tuple<pid_t, uint64_t, uint64_t>;  // its device and inode

  Mutex mutex_;
  std::map<FileOfOwner, ImportedFile> entries_ TUTTI_GUARDED_BY(mutex_);
};

/// One use of a peer's memory.
class Import {
 public:
  Import() = default;
  static Result<Import> of(Mapped& link, std::string_view handle);

  Import(Import&& other) noexcept
      : link_(std::exchange(other.link_, nullptr)), memory_(std::exchange(other.memory_, {})) {}
  Import& operator=(Import&& other) noexcept {
    std::swap(link_, other.link_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Import() {
    if (link_ != nullptr) link_->release(memory_.data);
  }

  /// Null: of nothing.
  std::byte* data() const { return memory_.data; }
  /// Whether [offset, offset + bytes) lies in it: peers name both, and are not believed.
  bool holds(uint64_t offset, uint64_t bytes) const {
    return offset <= memory_.bytes && bytes <= memory_.bytes - offset;
  }

 private:
  Import(Mapped& link, Buffer memory) : link_(&link), memory_(memory) {}

  Mapped* link_ = nullptr;
  Buffer memory_;
};

}  // namespace tutti::transport
