// Objects of the runtime layer on communicators that are edited in place.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/counters.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/moe_index.h"
#include "tutti/runtime/ragged_fsdp.h"
#include "tutti/runtime/row_dispatch.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

/// Both ranks change their numbers.
void turn(tuttiComm_t comm) {
  const int order[] = {1, 0};
  tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
  edit.order = order;
  edit.order_count = 2;
  ASSERT_EQ(tuttiCommEdit(comm, &edit, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
}

Timeline one_bucket() {
  DdpSpec spec;
  spec.ranks = 2;
  spec.buckets.assign(1, DdpBucket{Nanoseconds(1), Nanoseconds(1), Bytes(8)});
  return ddp(spec);
}

// They know the ranks of the epoch in which they were made, and have room for as many.
TEST(RuntimeEpochs, ObjectsOfAnEarlierEpochAreRefused) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    BucketBuffer bucket(comm, plan_bucket(std::vector<BucketTensor>{{64, 1}}, 2, 1), tuttiFloat32);
    RowDispatch rows(comm, 2, 4, Bytes(4));
    CounterSync counters(comm, 2);
    Communicators groups(comm);
    TimelineRunner runner(comm, one_bucket());
    bucket.all_gather();
    turn(comm);
    const char* const said = "in epoch 0 of its communicator, which has been edited since";
    EXPECT_REFUSED(bucket.all_gather(), said);
    EXPECT_REFUSED(bucket.reduce_scatter(), said);
    const std::vector<int32_t> topk(1, 0);
    const DispatchIndex index = build_index(topk, 1, 2);
    const float x = 1;
    EXPECT_REFUSED(rows.dispatch(index, Counts{}, &x), said);
    EXPECT_REFUSED(rows.prepare(index, Counts{}), said);
    const std::vector<int64_t> counts(2, 0);
    EXPECT_REFUSED(counters.post(0, counts), said);
    const std::vector<RankSet> all = {RankSet({0, 1})};
    EXPECT_REFUSED(groups.of(all), said);
    const TimelineWork work{[](const TimelineTask&) {},
                            [](const TimelineTask&) { return Payload(); }};
    EXPECT_REFUSED(runner.run(work), said);
    EXPECT_REFUSED(runner.change(one_bucket()), said);
    EXPECT_EQ(BucketBuffer(comm, plan_bucket(std::vector<BucketTensor>{{64, 1}}, 2, 1), tuttiInt8)
                  .gather_payload()
                  .count,
              32u);
  });
}

Exchange to_stripes() { return Exchange(reshard(even(4, 2), striped(4, 2, 1)), Bytes(4)); }

void expect_stripes(Exchange& exchange, tuttiComm_t comm, int rank) {
  const std::vector<int32_t> source = {2 * rank, 2 * rank + 1};
  std::vector<int32_t> target(2);
  exchange.run(comm, source.data(), target.data());
  EXPECT_EQ(target, (std::vector<int32_t>{rank, rank + 2}));
}

// A newcomer compares its plan with those of all, which have done so before it came.
TEST(RuntimeEpochs, AnExchangeGoesOnWithANewcomer) {
  tuttiUniqueId id;
  std::atomic<bool> has_id = false;
  std::thread newcomer([&] {
    while (!has_id) std::this_thread::yield();
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommJoin(&comm, &id, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
    Exchange exchange = to_stripes();
    expect_stripes(exchange, comm, 1);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    Exchange exchange = to_stripes();
    expect_stripes(exchange, comm, rank);
    if (rank == 1) throw RankIsLost();
    ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
    has_id = true;
    const int order[] = {0, TUTTI_NEWCOMER};
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = order;
    edit.order_count = 2;
    ASSERT_EQ(tuttiCommEdit(comm, &edit, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    expect_stripes(exchange, comm, 0);
  });
  newcomer.join();
}

}  // namespace
}  // namespace tutti::runtime
