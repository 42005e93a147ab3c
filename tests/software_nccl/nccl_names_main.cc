// nccl_names FILE [plain] [suspend]: loads a library of NCCL as Tutti does, or, `plain`, as
// dlopen() does by itself, and makes a communicator, or, `suspend`, suspends none and resumes it:
// calls in which the stand-in calls a function of its own by name. Under LD_PRELOAD of the drop-in
// that one is the drop-in's, unless the library is bound to itself first.
//
// Exit status: 0 the call came back; the stand-in ends the process if its call went astray.
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <vector>

#include "src/drivers/nccl/library.h"

namespace nccl = tutti::drivers::nccl;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  nccl::NcclFunctions call;
  std::vector<std::string> words(argv + 2, argv + argc);
  const bool suspends = !words.empty() && words.back() == "suspend";
  if (suspends) words.pop_back();
  if (!words.empty()) {
    void* const handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return 2;
    call.ncclCommInitRankConfig = reinterpret_cast<decltype(call.ncclCommInitRankConfig)>(
        dlsym(handle, "ncclCommInitRankConfig"));
    call.ncclCommSuspend =
        reinterpret_cast<decltype(call.ncclCommSuspend)>(dlsym(handle, "ncclCommSuspend"));
    call.ncclCommResume =
        reinterpret_cast<decltype(call.ncclCommResume)>(dlsym(handle, "ncclCommResume"));
  } else {
    const tutti::Result<nccl::Nccl> loaded = nccl::Nccl::load(argv[1]);
    if (!loaded.ok()) {
      std::printf("%s\n", std::string(loaded.status().message()).c_str());
      return 1;
    }
    call = loaded.value().call;
    std::printf("%s\n", loaded.value().name().c_str());
  }
  nccl::NcclComm comm = nullptr;
  if (suspends) {
    const auto given = call.ncclCommSuspend(comm, nccl::kSuspendMemory);
    return given == nccl::kInvalidArgument && call.ncclCommResume(comm) == given ? 0 : 1;
  }
  nccl::NcclConfig config;
  (void)call.ncclCommInitRankConfig(&comm, 1, {}, 0, &config);
  return 0;
}
