// ends: a client's object makes two communicators and uses them, and again when it is destroyed: a
// global one behind exit(), or with --thread a thread_local one when its thread ends. It was made
// before anything that the library keeps for the thread.
//
// Exit status: 0 all was right, and "ended" is printed; 1 it was not; 2 the command line is wrong.
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <thread>

#include "include/tutti/tutti.h"
#include "tests/support/options.h"

namespace tutti::api_test {
namespace {

/// exit() has been called already.
void must(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not as it should be: %s (%s)\n", what, tuttiGetLastError(nullptr));
  _exit(1);
}

void works(tuttiResult_t result, const char* what) { must(result == tuttiSuccess, what); }

class Client {
 public:
  void begin() {
    works(tuttiCommInitAll(comms_, 2, nullptr), "CommInitAll");
    use();
  }
  ~Client() {
    if (comms_[0] == nullptr) return;
    use();
    works(tuttiGroupStart(), "GroupStart");
    for (tuttiComm_t comm : comms_) works(tuttiCommDestroy(comm), "CommDestroy");
    works(tuttiGroupEnd(), "GroupEnd");
    std::fputs("ended\n", stderr);
  }

 private:
  void use() {
    sum();
    must(tuttiCommCount(comms_[0], nullptr) == tuttiInvalidArgument, "an error");
    const std::string_view message = "tuttiCommCount: ranks is null";
    must(tuttiGetLastError(nullptr) == message, "the thread's error");
    must(tuttiGetLastError(comms_[0]) == message, "the communicator's error");
    tuttiSetting_t setting;
    for (int i = 0; tuttiGetSetting(i, &setting) == tuttiSuccess; ++i) {
      must(setting.value != nullptr, "a setting");
    }
  }

  void sum() {
    int mine[2] = {1, 2}, sums[2] = {};
    works(tuttiGroupStart(), "GroupStart");
    for (int i = 0; i < 2; ++i) {
      works(tuttiAllReduce(&mine[i], &sums[i], 1, tuttiInt32, tuttiSum, comms_[i], tuttiBlocking()),
            "AllReduce");
    }
    works(tuttiGroupEnd(), "GroupEnd");
    must(sums[0] == 3 && sums[1] == 3, "the sums of a group");
  }

  tuttiComm_t comms_[2] = {};
};

Client global;

void run_thread() {
  thread_local Client own;
  own.begin();
}

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  bool thread = false;
  if (!tutti::testing_support::read_options(argc, argv, {}, {{"--thread", &thread}})) return 2;
  if (thread) {
    std::thread(run_thread).join();
  } else {
    global.begin();
  }
  return 0;
}
