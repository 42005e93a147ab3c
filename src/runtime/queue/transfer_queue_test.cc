// A queue over sockets, its processes being threads of this one. tests/queue kills real ones.
#include "tutti/runtime/transfer_queue.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "src/runtime/crew_test.h"
#include "src/runtime/queue/sockets.h"

namespace tutti::runtime {
namespace {

constexpr char kKey[] = "a key of the test";

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_queue_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string address(const std::string& name) const { return "unix:" + (path / name).string(); }
  std::filesystem::path path;
};

/// Two storage units, a controller.
struct Rig {
  explicit Rig(int64_t rows = 8, std::chrono::milliseconds lease = std::chrono::seconds(60),
               int64_t budget = 1 << 20)
      : first(folder.address("u0"), Bytes(budget)), second(folder.address("u1"), Bytes(budget)) {
    QueueSpec spec;
    spec.rows = rows;
    spec.fields = {"prompt", "answer"};
    spec.units = {first.address(), second.address()};
    spec.lease = lease;
    controller = std::make_unique<QueueController>(folder.address("c"), spec);
  }
  QueueClient client() { return QueueClient(controller->address()); }

  Folder folder;
  StorageUnit first, second;
  std::unique_ptr<QueueController> controller;
};

QueueClient::Put cell(int64_t step, int64_t row, const std::string& field) {
  QueueClient::Put put;
  put.row = {step, row};
  put.field = field;
  put.form = "bytes";
  return put;
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
ClaimSpec some(int64_t rows, int64_t milliseconds = 60'000) {
  ClaimSpec spec;
  spec.rows = rows;
  spec.timeout = std::chrono::milliseconds(milliseconds);
  return spec;
}

TEST(TransferQueue, SamplesComeBackAsTheyWerePut) {
  Rig rig;
  QueueClient client = rig.client();
  client.add_task({"train", {"answer", "prompt"}});
  const std::string empty, large(300'001, 'x');
  for (int64_t r = 0; r < 4; ++r) {
    client.put(cell(0, r, "prompt"), bytes_of("prompt " + std::to_string(r)));
    client.put(cell(0, r, "answer"), bytes_of(r % 2 == 0 ? empty : large.substr(size_t(r))));
  }
  const QueueBatch batch = client.claim("train", some(4));
  const QueueSamples samples = client.fetch(batch);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(samples.cell(r, 0), r % 2 == 0 ? empty : large.substr(r));
    EXPECT_EQ(samples.cell(r, 1), "prompt " + std::to_string(r));
  }
  EXPECT_GT(rig.first.held().value, 0);
  EXPECT_GT(rig.second.held().value, 500'000) << "rows 1 and 3 lie here";
  EXPECT_EQ(client.form(0, "answer"), "bytes");
  EXPECT_REFUSED(client.clear(0), "is lent");
  client.ack(batch);
  EXPECT_EQ(client.clear(0), 4) << "rows 4 to 7";
  EXPECT_EQ(rig.first.held().value + rig.second.held().value, 0);
  EXPECT_INFEASIBLE(client.fetch(batch), "the step was cleared");
}

TEST(TransferQueue, ProducersAndConsumersMeetEachRowOnceForEachTask) {
  constexpr int64_t kRows = 32, kSteps = 4;
  Rig rig(kRows);
  const std::vector<std::string> tasks = {"reward", "train"};
  rig.client().add_task({"reward", {"prompt"}});
  rig.client().add_task({"train", {"prompt", "answer"}});
  std::vector<std::atomic<int>> seen(kRows * kSteps * 2);
  std::vector<std::thread> crew;
  for (int p = 0; p < 2; ++p) {
    crew.emplace_back([&, p] {
      QueueClient client = rig.client();
      for (int64_t r = p; r < kRows * kSteps; r += 2) {
        const QueueRow row{r / kRows, r % kRows};
        for (const char* field : {"prompt", "answer"}) {
          client.put(cell(row.step, row.row, field), bytes_of(field + std::to_string(r)));
        }
      }
    });
  }
  for (int c = 0; c < 4; ++c) {
    crew.emplace_back([&, c] {
      QueueClient client = rig.client();
      const std::string& task = tasks[size_t(c % 2)];
      for (int64_t i = 0; i < kRows * kSteps / 2; i += 4) {
        const QueueBatch batch = client.claim(task, some(4));
        const QueueSamples samples = client.fetch(batch);
        for (size_t r = 0; r < batch.rows.size(); ++r) {
          const int64_t number = batch.rows[r].step * kRows + batch.rows[r].row;
          EXPECT_EQ(samples.cell(r, 0), "prompt" + std::to_string(number));
          ++seen[size_t(number * 2 + c % 2)];
        }
        client.ack(batch);
      }
    });
  }
  QueueClient keeper = rig.client();
  for (int64_t step = 0; step < kSteps; ++step) {
    keeper.drain(step);
    const int64_t unread = step + 1 < kSteps ? keeper.clear(step) : 0;
    EXPECT_EQ(unread, 0);
  }
  for (std::thread& thread : crew) thread.join();
  for (const std::atomic<int>& times : seen) EXPECT_EQ(times.load(), 1);
}

TEST(TransferQueue, RowsOfAClientThatIsGoneAreLentAgain) {
  Rig rig;
  QueueClient keeper = rig.client();
  keeper.add_task({"t", {"prompt"}});
  keeper.put(cell(0, 0, "prompt"), bytes_of("x"));
  auto dead = std::make_unique<QueueClient>(rig.controller->address());
  const QueueBatch lost = dead->claim("t", some(1));
  dead.reset();
  const QueueBatch again = keeper.claim("t", some(1));  // waits until the end is noticed
  EXPECT_EQ(again.rows, lost.rows);
  EXPECT_INFEASIBLE(keeper.ack(lost), "is not lent to this client");
  keeper.ack(again);
  EXPECT_EQ(keeper.counts("t").lapsed, 1);
}

TEST(TransferQueue, ALeaseEndsThoughItsClientLives) {
  Rig rig(8, std::chrono::milliseconds(30));
  QueueClient slow = rig.client(), other = rig.client();
  slow.add_task({"t", {"prompt"}});
  slow.put(cell(0, 0, "prompt"), bytes_of("x"));
  const QueueBatch batch = slow.claim("t", some(1));
  const QueueBatch again = other.claim("t", some(1));
  EXPECT_EQ(again.rows, batch.rows);
  EXPECT_INFEASIBLE(slow.ack(batch), "is not lent");
}

TEST(TransferQueue, WaitsEndWithWhatIsMissing) {
  Rig rig;
  QueueClient client = rig.client();
  client.add_task({"t", {"prompt"}, 1});
  EXPECT_INFEASIBLE(client.claim("t", some(2, 0)), "0 of 2 rows are free for task 't'");
  client.put(cell(0, 0, "prompt"), bytes_of("x"));
  client.put(cell(1, 0, "prompt"), bytes_of("x"));
  QueueClient::Put next = cell(2, 0, "prompt");
  next.timeout = std::chrono::milliseconds(0);
  EXPECT_INFEASIBLE(client.put(next, bytes_of("x")), "no room for step 2");
  EXPECT_INFEASIBLE(client.drain(0, std::chrono::milliseconds(0)), "8 rows of step 0");
  EXPECT_INFEASIBLE(client.version(3, std::chrono::milliseconds(0)), "the last one is 0");
  // A wait that another client ends.
  std::thread trainer([&] { rig.client().publish(3); });
  EXPECT_EQ(client.version(3), 3);
  trainer.join();
  std::thread keeper([&] { rig.client().clear(0); });
  client.put(cell(2, 0, "prompt"), bytes_of("x"));
  keeper.join();
}

TEST(TransferQueue, WrongCallsAreRefusedAndTheClientLivesOn) {
  Rig rig(8, std::chrono::seconds(60), 10);
  QueueClient client = rig.client();
  client.add_task({"t", {"prompt"}});
  client.put(cell(0, 0, "prompt"), bytes_of("12345678"));
  EXPECT_REFUSED(client.put(cell(0, 0, "prompt"), bytes_of("x")), "was put before");
  EXPECT_FALSE(client.put_if_absent(cell(0, 0, "prompt"), bytes_of("x")));
  EXPECT_INFEASIBLE(client.put(cell(0, 2, "prompt"), bytes_of("123")), "holds 8 of at most 10");
  client.put(cell(0, 2, "prompt"), bytes_of("12"));  // what was refused can be put again
  EXPECT_REFUSED(client.put(cell(0, 8, "prompt"), bytes_of("x")), "does not exist");
  EXPECT_REFUSED(client.put(cell(0, 1, "image"), bytes_of("x")), "no field 'image'");
  EXPECT_REFUSED(client.claim("t", some(9)), "give 1 to 8");
  EXPECT_REFUSED(client.claim("t", some(1, -1)), "is negative");
  EXPECT_EQ(client.claim("t", some(2)).rows.size(), 2u);
  EXPECT_REFUSED(QueueClient("http://host"), "neither unix:/path nor tcp:host:port");
  EXPECT_REFUSED(StorageUnit("tcp:127.0.0.1:0", Bytes(1)), "needs a key");
  EXPECT_REFUSED(StorageUnit(rig.folder.address("x"), Bytes(0)), "0 bytes");
  EXPECT_REFUSED(StorageUnit(rig.first.address(), Bytes(1)), "listens at");
  // A storage unit is no controller.
  EXPECT_REFUSED(QueueClient(rig.first.address()), "address of a controller");
}

TEST(TransferQueue, OverTcpBothEndsHoldTheKey) {
  const StorageUnit unit("tcp:127.0.0.1:0", Bytes(1000), kKey);
  QueueSpec spec;
  spec.rows = 2;
  spec.fields = {"x"};
  spec.units = {unit.address()};
  const QueueController controller("tcp:127.0.0.1:0", spec, kKey);
  QueueClient client(controller.address(), kKey);
  client.add_task({"t", {"x"}});
  client.put(cell(0, 0, "x"), bytes_of("over tcp"));
  EXPECT_EQ(client.fetch(client.claim("t", some(1))).cell(0, 0), "over tcp");
  EXPECT_NE(refusal([&] { QueueClient(controller.address(), "another key than the test's"); },
                    ErrorKind::kCommunication)
                .find("holds another key"),
            std::string::npos);
}

TEST(TransferQueue, StrangersHarmNobody) {
  Rig rig;
  QueueClient client = rig.client();
  for (int i = 0; i < 100; ++i) {
    const queue::Socket stranger = queue::connect_to(
        rig.controller->address(), "", queue::Clock::now() + std::chrono::seconds(60));
    const std::string garbage(size_t(i * 7), char(i));
    send(stranger.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (i % 3 == 0) continue;
    // One that proves itself and then speaks nonsense.
    queue::prove(queue::connect_to(rig.controller->address(), "",
                                   queue::Clock::now() + std::chrono::seconds(60)),
                 "", "test", queue::Clock::now() + std::chrono::seconds(60));
  }
  const queue::Deadline end = queue::Clock::now() + std::chrono::seconds(60);
  const std::vector<std::string> frames = {std::string(8, '\0'), std::string(16, '\xff'),
                                           std::string(40, '\x02'), std::string(24, '\0')};
  for (const std::string& frame : frames) {
    const queue::Socket member = queue::connect_to(rig.controller->address(), "", end);
    queue::prove(member, "", "test", end);
    queue::send_frame(member, frame, "", "test", end);
    EXPECT_NE(queue::recv_frame(member, "test", end), "") << "the sentence of an error, or words";
  }
  client.add_task({"t", {"prompt"}});
  EXPECT_EQ(client.version(), 0);
}

TEST(TransferQueue, AWaitIsInterrupted) {
  Rig rig;
  QueueClient client = rig.client();
  std::thread other([&] { client.interrupt(); });
  EXPECT_NE(
      refusal([&] { client.version(1, std::chrono::minutes(10)); }, ErrorKind::kCommunication), "");
  other.join();
  EXPECT_EQ(rig.client().version(), 0);
}

TEST(TransferQueue, TheEndOfTheControllerIsAnError) {
  Rig rig;
  QueueClient client = rig.client();
  rig.controller.reset();
  EXPECT_NE(refusal([&] { client.version(); }, ErrorKind::kCommunication).find("hung up"),
            std::string::npos);
  EXPECT_NE(refusal([&] { client.version(); }, ErrorKind::kCommunication).find("new client"),
            std::string::npos);
}

// (e) of the paper's section: k batches through stages a and b, k (a + b) against
// a + b + (k - 1) max(a, b).
TEST(TransferQueue, StreamedStagesTakeNineUnitsInsteadOfSixteen) {
  StreamedSpec spec;
  spec.micro_batches = 8;
  spec.stages = {Nanoseconds(1000), Nanoseconds(1000)};
  const auto makespan = [](const StreamedSpec& given) {
    const Timeline timeline = streamed_timeline(given);
    expect_sound(timeline);
    return summarize(timeline, simulate(timeline)).makespan.value;
  };
  EXPECT_EQ(makespan(spec), 9000);
  spec.streamed = false;
  EXPECT_EQ(makespan(spec), 16000);
  for (const int64_t a : {300, 1000, 1700}) {
    for (const int64_t b : {400, 1000}) {
      spec.stages = {Nanoseconds(a), Nanoseconds(b)};
      spec.streamed = false;
      EXPECT_EQ(makespan(spec), 8 * (a + b));
      spec.streamed = true;
      EXPECT_EQ(makespan(spec), a + b + 7 * std::max(a, b));
    }
  }
  spec.micro_batches = 0;
  EXPECT_REFUSED(streamed_timeline(spec), "0 micro-batches");
}

}  // namespace
}  // namespace tutti::runtime
