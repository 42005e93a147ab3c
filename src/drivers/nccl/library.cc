#include "src/drivers/nccl/library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace tutti::drivers::nccl {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64";

// A sanitizer takes the place of functions in all libraries, and so refuses one that is bound to
// itself first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string file_of(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
  return known ? map->l_name : asked;
}

Status is_own(const std::string& file) {
  return Status::unsupported(file +
                             " is Tutti's own drop-in for NCCL; name NCCL's library with "
                             "TUTTI_NCCL=FILE");
}

/// Whether both name one file, whatever their names.
bool is_same_file(const char* one, const char* other) {
  struct stat a = {}, b = {};
  return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The library that this code is in.
bool is_this_library(const std::string& file) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&is_same_file), &info) == 0) return false;
  return info.dli_fname != nullptr && is_same_file(info.dli_fname, file.c_str());
}

template <class Function>
void ask(void* handle, const char* name, Function& found) {
  found = reinterpret_cast<Function>(dlsym(handle, name));
}

/// The folders in which the loader looks for libraries of this program, but for its cache.
std::vector<std::string> loader_folders() {
  std::vector<std::string> folders;
  void* const program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size = {};
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::max_align_t> room(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(room.data());
  *info = size;
  if (dlinfo(program, RTLD_DI_SERINFO, info) != 0) return folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

std::string maps_of_this_process() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

Result<Nccl> search() {
  std::optional<Status> refused;
  for (const std::string& file : likely_files()) {
    struct stat found = {};
    if (stat(file.c_str(), &found) != 0) continue;
    Result<Nccl> loaded = Nccl::load(file);
    if (loaded.ok()) return loaded;
    if (!refused) refused = loaded.status();
  }
  Result<Nccl> by_name = Nccl::load(kLibrary);
  if (by_name.ok() || !refused) return by_name;
  return *refused;
}

}  // namespace

std::string Nccl::name() const {
  return fmt::format("NCCL {} ({})", version_text(version_), file_);
}

// The layout is never newer than the library, which refuses what it does not know.
NcclConfig Nccl::config() const {
  constexpr int kNamed = 22700;
  NcclConfig config;
  const bool has_name = version_ >= kNamed;
  config.size = has_name ? sizeof(NcclConfig) : offsetof(NcclConfig, traffic_class);
  // The last field's neighbour lies in the same 8 bytes.
  if (!has_name) config.size = (config.size + alignof(NcclConfig) - 1) & ~(alignof(NcclConfig) - 1);
  config.version = static_cast<unsigned>(has_name ? kNamed : kLeastVersion);
  config.blocking = 0;
  return config;
}

Status Nccl::error_status(NcclResult result, std::string_view function, NcclComm comm) const {
  const char* text = call.ncclGetErrorString != nullptr ? call.ncclGetErrorString(result) : nullptr;
  const char* last = call.ncclGetLastError != nullptr ? call.ncclGetLastError(comm) : nullptr;
  std::string message =
      fmt::format("{} of NCCL failed: {} ({})", function, text != nullptr ? text : "no description",
                  static_cast<int>(result));
  if (last != nullptr && last[0] != '\0') message += fmt::format(": {}", last);
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {result == kRemoteError ? Code::kRemoteError : Code::kSystemError, message};
}

Status Nccl::resolve(void* handle) {
  std::string missing;
#define TUTTI_NCCL_RESOLVE(name, parameters) \
  ask(handle, #name, call.name);             \
  if (call.name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  TUTTI_NCCL_FUNCTIONS(TUTTI_NCCL_RESOLVE)
#undef TUTTI_NCCL_RESOLVE
#define TUTTI_NCCL_RESOLVE_MORE(name, result, parameters) ask(handle, #name, call.name);
  TUTTI_NCCL_MORE_FUNCTIONS(TUTTI_NCCL_RESOLVE_MORE)
#undef TUTTI_NCCL_RESOLVE_MORE
  const bool says = call.ncclGetVersion != nullptr && call.ncclGetVersion(&version_) == kSuccess;
  if (!says) return Status::unsupported(file_ + " does not say which version of NCCL it is");
  if (version_ < kLeastVersion) {
    return Status::unsupported(fmt::format("{} is too old: Tutti needs NCCL {} or newer", name(),
                                           version_text(kLeastVersion)));
  }
  if (missing.empty()) return {};
  return Status::unsupported(fmt::format("{} has no {}; reinstall it", name(), missing));
}

Result<Nccl> Nccl::load(const std::string& file) {
  if (is_this_library(file)) return is_own(file);
  void* const handle = dlopen(file.c_str(), kBinding);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status::unsupported(
        fmt::format("NCCL cannot be loaded: {}", why != nullptr ? why : file));
  }
  Nccl loaded;
  loaded.file_ = file_of(handle, file);
  if (dlsym(handle, kDropInSymbol) != nullptr) return is_own(loaded.file_);
  if (Status resolved = loaded.resolve(handle); !resolved.ok()) return resolved;
  return loaded;
}

// torch/lib/libtorch_cuda.so stands beside nvidia/nccl/lib in one folder of packages.
std::vector<std::string> files_beside_torch(std::string_view maps) {
  constexpr std::string_view kTorch = "/torch/lib/libtorch_cuda.so";
  const size_t at = maps.find(kTorch);
  if (at == std::string_view::npos) return {};
  const size_t begin = maps.rfind('\n', at) + 1;  // npos + 1 is 0
  const size_t path = maps.find('/', begin);
  const std::string packages(maps.substr(path, at - path));
  return {packages + "/nvidia/nccl/lib/" + kLibrary};
}

std::vector<std::string> likely_files() {
  std::vector<std::string> files = files_beside_torch(maps_of_this_process());
  for (const std::string& folder : loader_folders()) files.push_back(folder + "/" + kLibrary);
  files.push_back(std::string(kToolkitFolder) + "/" + kLibrary);
  return files;
}

const Result<Nccl>& find(const std::string& named) {
  // Never destroyed: threads may call NCCL until the process ends.
  static const Result<Nccl>* const found =
      new Result<Nccl>(named.empty() ? search() : Nccl::load(named));
  return *found;
}

std::string describe(const std::string& named) {
  const Result<Nccl>& found = find(named);
  return found.ok() ? found.value().name() : std::string(found.status().message());
}

}  // namespace tutti::drivers::nccl
