// A transfer queue whose producers and consumers are killed at random. slow_killed_queue_test.cc is
// the long form.
#include "tests/queue/killed.h"

#include "generated/test_paths.h"

namespace tutti::testing_support {
namespace {

TEST(KilledQueue, EveryRowIsConsumedOnceForEachTask) {
  KilledQueue queue(TUTTI_TEST_BIN_DIR "/queue", 1);
  queue.run(20);
  queue.check();
}

}  // namespace
}  // namespace tutti::testing_support
