// NCCL itself, found when the program runs and loaded beside Tutti's drop-in of the same name:
// nothing of NCCL is needed to build or to start.
//
// NCCL calls some of its own functions by their exported names. Where the drop-in is preloaded
// these names mean the drop-in's, so the library is bound to itself first (RTLD_DEEPBIND), and
// Tutti asks it for each function by its handle. Where there is no NCCL, or none that can be used,
// everything else of Tutti works, and find() says why in a sentence.
//
// Owns: the loaded library, which is never unloaded. Threads: any. Errors: kUnsupported for what is
// not there; of calls, Status with the function and NCCL's text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/drivers/nccl/functions.h"

namespace tutti::drivers::nccl {

/// Types and functions of the interface are used by their names all over this folder.
using namespace api;  // NOLINT(build/namespaces)

/// The least version: the first whose communicators can be made and used without blocking, split
/// and scaled sums included.
inline constexpr int kLeastVersion = 21800;
inline constexpr int kFp8Version = 22400;
/// The drop-in exports it, and no other library.
inline constexpr const char* kDropInSymbol = "pncclTuttiDropIn";

class Nccl {
 public:
  /// Loads a file, or what the loader finds by a name. kUnsupported: absent, too old, no NCCL, or
  /// Tutti's own drop-in; the message names the file and says which.
  static Result<Nccl> load(const std::string& file);

  /// The functions as NCCL has them; their callers turn the result into a Status with check().
  NcclFunctions call;

  /// 10000 * major + 100 * minor + patch.
  int version() const { return version_; }
  /// Of the library, as the loader has it.
  const std::string& file() const { return file_; }
  /// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
  std::string name() const;
  /// The types that it knows are those whose number is below.
  int types() const { return version_ < kFp8Version ? kTypesOfAll : kTypesWithFp8; }
  /// Whether its communicators can give their device memory back for a while.
  bool suspends() const {
    return call.ncclCommSuspend != nullptr && call.ncclCommResume != nullptr;
  }
  /// Of a communicator that never blocks, with the fields that this version has.
  NcclConfig config() const;

  /// OK, also for what is under way; or error_status(). Costs a comparison where nothing failed.
  Status check(NcclResult result, std::string_view function, NcclComm comm = nullptr) const {
    const bool fine = result == kSuccess || result == kInProgress;
    return fine ? Status() : error_status(result, function, comm);
  }
  Status error_status(NcclResult result, std::string_view function, NcclComm comm) const;

 private:
  Nccl() = default;
  Status resolve(void* handle);

  int version_ = 0;
  std::string file_;
};

/// Files that may be NCCL's, best first: beside the torch that is loaded into this process, then in
/// the folders in which the loader looks.
std::vector<std::string> likely_files();
/// The same, of a process with these mappings (the text of /proc/self/maps).
std::vector<std::string> files_beside_torch(std::string_view maps);

/// The NCCL of this process: the file that TUTTI_NCCL names, or else the first of likely_files()
/// that is one, or what the loader finds by name. Found by the first call, which may take a second;
/// later ones return what that one found. `named`: the setting; "": none.
const Result<Nccl>& find(const std::string& named);

/// A line for people about find(): version and file, or why there is none.
std::string describe(const std::string& named);

}  // namespace tutti::drivers::nccl
