#include "src/bootstrap/launch/exchange_of_launcher.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/thread.h"
#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

// In place of an id, since the others wait for something.
constexpr const char* kNowhere = "nowhere";

/// Shared with a thread that may never end.
struct Round {
  std::shared_ptr<LauncherExchange> exchange;
  std::string key;
  std::string put;  // rank 0
  Mutex mutex;
  std::condition_variable ended;
  bool done TUTTI_GUARDED_BY(mutex) = false;
  Result<std::string> got TUTTI_GUARDED_BY(mutex) = Status::internal_error("no answer");
};

Result<std::string> run(Round& round) {
  if (!round.put.empty()) {
    if (Status status = round.exchange->put(round.key, round.put); !status.ok()) return status;
  }
  if (Status status = round.exchange->fence(); !status.ok()) return status;
  return round.put.empty() ? round.exchange->get(round.key) : Result<std::string>(round.put);
}

Result<std::string> run_caught(Round& round) {
  try {
    return run(round);
  } catch (const std::exception& error) {
    return status_of(error);
  }
}

bool wait_for(Round& round, const WaitLimit& wait_limit) {
  constexpr std::chrono::milliseconds kLook{20};  // a cancellation wakes nobody here
  wait_limit.waits_for("the launcher's exchange has not ended: not every rank has called it");
  MutexLock lock(round.mutex);
  while (!round.ended.wait_for(lock, kLook, [&] {
    round.mutex.assert_held();
    return round.done;
  })) {
    wait_limit.tell_if_due();
    if (wait_limit.over()) return false;
  }
  return true;
}

Result<std::string> share(const std::shared_ptr<Round>& round, const WaitLimit& wait_limit) {
  Result<std::thread> thread = start_thread("tutti-launch", [round] {
    Result<std::string> got = run_caught(*round);
    const MutexLock lock(round->mutex);
    round->got = std::move(got);
    round->done = true;
    round->ended.notify_all();
  });
  if (!thread.ok()) return thread.status();
  bool ended = false;
  const Status waited = caught_status([&] {
    ended = wait_for(*round, wait_limit);
    return Status();
  });
  if (ended) {
    thread.value().join();
    const MutexLock lock(round->mutex);
    return std::move(round->got);
  }
  thread.value().detach();
  if (!waited.ok()) return waited;
  return wait_limit.reason("the launcher's exchange did not end in time: did every rank call it?");
}

/// Keeps the library's session until all ranks have met.
struct LauncherSession final : Support {
  explicit LauncherSession(std::shared_ptr<LauncherExchange> kept) : exchange(std::move(kept)) {}
  std::shared_ptr<LauncherExchange> exchange;
};

std::string to_text(const UniqueId& id) {
  const UniqueIdBytes bytes = id.encode();
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

void at_exit(std::function<void()> leave) {
  struct Owner {
    std::function<void()> leave;
    pid_t process;
  };
  const auto call = [](int /*status*/, void* given) {
    const std::unique_ptr<Owner> owner(static_cast<Owner*>(given));
    if (owner->process == getpid()) owner->leave();
  };
  auto owner = std::make_unique<Owner>(Owner{std::move(leave), getpid()});
  if (on_exit(call, owner.get()) == 0) (void)owner.release();
}

Result<LaunchMeeting> meet_over(std::unique_ptr<LauncherExchange> exchange, const Launch& launch,
                                const Start& start) {
  LaunchMeeting meeting;
  meeting.launch = launch;
  auto round = std::make_shared<Round>();
  round->exchange = std::move(exchange);
  // Fences count tries: a try that this rank gave up is over when all have come to its fence.
  round->key = "tutti.id." + std::to_string(start.tried);
  Status opened;
  if (launch.rank == 0) {
    opened = open_meeting(start, meeting);
    round->put = opened.ok() ? to_text(meeting.id) : kNowhere;
  }
  const Result<std::string> text = share(round, start.wait_limit);
  if (!opened.ok()) return opened;
  if (!text.ok()) {
    return Status(text.status().code(), "rank " + std::to_string(launch.rank) + " of " +
                                            launch.how + ": " +
                                            std::string(text.status().message()));
  }
  if (text.value() == kNowhere) {
    return Status::remote_error("rank 0 of " + launch.how +
                                " could not open the rendezvous; its own error says why");
  }
  Result<UniqueId> id = UniqueId::from_text(text.value());
  if (!id.ok()) return id.status();
  meeting.id = std::move(id).value();
  meeting.support = std::make_unique<LauncherSession>(round->exchange);
  return meeting;
}

}  // namespace tutti::bootstrap
