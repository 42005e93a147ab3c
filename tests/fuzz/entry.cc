// The door for libFuzzer: `clang++ -fsanitize=fuzzer` links this in place of fuzz_main.cc, and
// `--target=NAME` says which target its bytes go to (docs/building.md).
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/target.h"

namespace {

// tidy: allow mutable (libFuzzer hands over no context)
const tutti::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" {

int LLVMFuzzerInitialize(const int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--target=";
  std::string_view name = tutti::fuzz::targets()[0].name;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with(kFlag)) name = argument.substr(kFlag.size());
  }
  for (const tutti::fuzz::Target& target : tutti::fuzz::targets()) {
    if (target.name == name) chosen = &target;
  }
  tutti::fuzz::require(chosen != nullptr, "there is such a target");
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run({data, size});
  return 0;
}

}  // extern "C"
