// Two hundred kills of producers and consumers of a transfer queue.
#include "tests/queue/killed.h"

#include "generated/test_paths.h"

namespace tutti::testing_support {
namespace {

TEST(SlowKilledQueue, EveryRowIsConsumedOnceForEachTask) {
  KilledQueue queue(TUTTI_TEST_BIN_DIR "/queue", 2);
  queue.run(200);
  queue.check();
}

}  // namespace
}  // namespace tutti::testing_support
