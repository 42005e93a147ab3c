#include "src/api/registration.h"

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "src/api/submit.h"
#include "src/base/caught.h"
#include "src/base/thread.h"

namespace tutti::api {
namespace {

/// Peers wait for what an exception interrupts.
Status run_one(const RegistrationCall& registration) {
  tuttiComm_t comm = registration.comm;
  const UseGuard use = guard_use(comm);
  try {
    return registration.run(registration);
  } catch (const std::exception& error) {
    const bool usable = comm->state.load(std::memory_order_seq_cst) == registration.within;
    return usable ? comm->communicator->fail_after(error) : status_of(error);
  }
}

/// Of one communicator.
struct RegistrationSeries {
  tuttiComm_t comm;
  std::vector<const RegistrationCall*> registrations;
  Status outcome;

  void run() {
    for (const RegistrationCall* registration : registrations) {
      const Status status = run_one(*registration);
      if (outcome.ok()) outcome = status;
    }
  }
};

std::vector<RegistrationSeries> by_communicator(
    const std::vector<RegistrationCall>& registrations) {
  std::vector<RegistrationSeries> all;
  for (const RegistrationCall& registration : registrations) {
    const auto is_own = [&](const RegistrationSeries& series) {
      return series.comm == registration.comm;
    };
    auto own = std::find_if(all.begin(), all.end(), is_own);
    if (own == all.end()) own = all.insert(own, {registration.comm, {}, {}});
    own->registrations.push_back(&registration);
  }
  return all;
}

// The last one's in this thread, once it is known that every other has a thread.
Status run_together(std::vector<RegistrationSeries>& all) {
  std::promise<bool> decide;
  const std::shared_future<bool> decision = decide.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(all.size());
  Status missing;
  while (missing.ok() && threads.size() + 1 < all.size()) {
    RegistrationSeries& series = all[threads.size()];
    missing = caught_status([&] {
      Result<std::thread> thread = start_thread("tutti-register", [&series, decision] {
        if (decision.get()) series.run();
      });
      if (thread.ok()) threads.push_back(std::move(thread).value());
      return thread.status();
    });
  }
  decide.set_value(missing.ok());
  if (missing.ok()) all.back().run();
  for (std::thread& thread : threads) thread.join();
  if (missing.ok()) return {};
  return Status::system_error("no thread for each of the " + std::to_string(all.size()) +
                              " communicators for which the group registers memory, or gives it "
                              "back (" +
                              std::string(missing.message()) + "); none does");
}

}  // namespace

Status check_suspended(tuttiComm_t comm) {
  const bool is_suspended =
      comm != nullptr && comm->state.load(std::memory_order_seq_cst) == CommState::kSuspended;
  if (is_suspended) return {};
  if (Status status = check_handle(comm); !status.ok()) return status;
  return Status::invalid_usage("the communicator is not suspended");
}

tuttiResult_t register_memory(RegistrationCall registration) {
  {
    const UseGuard use = guard_use(registration.comm);
    const Status status = registration.within == CommState::kSuspended
                              ? check_suspended(registration.comm)
                              : check_handle(registration.comm);
    if (!status.ok()) return refuse(registration.comm, status);
  }
  if (add_to_group(registration)) return tuttiSuccess;
  return report(registration.comm, run_one(registration));
}

Status run_registrations(const std::vector<RegistrationCall>& registrations) {
  if (registrations.empty()) return {};
  std::vector<RegistrationSeries> all = by_communicator(registrations);
  if (Status status = run_together(all); !status.ok()) return status;
  const auto failed = std::find_if(all.begin(), all.end(), [](const RegistrationSeries& series) {
    return !series.outcome.ok();
  });
  return failed == all.end() ? Status() : failed->outcome;
}

}  // namespace tutti::api
