#include "src/bootstrap/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/thread.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/place.h"
#include "src/bootstrap/server_loop.h"

namespace tutti::bootstrap {
namespace {

/// The server is no rank: it lets in every rank that knows the key and the job.
transport::door::Identity server_identity(const UniqueId& id) {
  transport::door::Identity self;
  self.communicator = id.communicator();
  self.purpose = transport::door::kRendezvous;
  return self;
}

/// The servers of this process without an owner. Those of failed groups tell latecomers why, and
/// hold the port that the next attempt needs.
class Released {
 public:
  void add(uint16_t port, const std::shared_ptr<ServerLoop>& loop) {
    const MutexLock lock(mutex_);
    std::erase_if(servers_, [](const auto& one) { return one.second.expired(); });
    servers_.emplace_back(port, loop);
  }

  /// Returns false if no server could give the port up.
  bool give_up(uint16_t port) {
    const MutexLock lock(mutex_);
    bool gave_up = false;
    for (const auto& [number, server] : servers_) {
      const std::shared_ptr<ServerLoop> loop = number == port ? server.lock() : nullptr;
      if (loop == nullptr || !loop->failed()) continue;
      loop->stop();
      gave_up = await_end(*loop) || gave_up;
    }
    return gave_up;
  }

 private:
  /// It answers the ranks that are there. In a forked child it never ends, since its thread is the
  /// parent's.
  static bool await_end(const ServerLoop& loop) {
    constexpr useconds_t kPauseUs = 200;
    const uint64_t until_ns = monotonic_ns() + kNanosecondsPerSecond;
    while (!loop.finished() && monotonic_ns() < until_ns) usleep(kPauseUs);
    return loop.finished();
  }

  Mutex mutex_;
  std::vector<std::pair<uint16_t, std::weak_ptr<ServerLoop>>> servers_ TUTTI_GUARDED_BY(mutex_);
};

Released& released() {
  // tidy: allow mutable (of servers that nobody owns); never freed: their threads may outlive all
  static auto* const released = new Released;
  return *released;
}

Result<Listener> listen_when_left(const Address& address, uint16_t port) {
  Result<Listener> listener = listen_on(address, port);
  if (!listener.ok() && port != 0 && released().give_up(port)) return listen_on(address, port);
  return listener;
}

/// Listeners on as many of the addresses as possible, all with one port. Leaves the others out of
/// `id`.
Result<ServerLoop::Gates> open_gates(UniqueId& id) {
  ServerLoop::Gates gates;
  std::vector<Address> used;
  Status refusal = Status::invalid_argument("the rendezvous has no address to listen on");
  for (const Address& address : id.addresses) {
    Result<Listener> listener = listen_when_left(address, id.port);
    if (!listener.ok()) {
      refusal = listener.status();
      continue;
    }
    id.port = listener.value().port;
    used.push_back(address);
    gates.push_back(std::make_unique<transport::door::Gate>(std::move(listener.value().fd), id.key,
                                                            server_identity(id)));
  }
  if (gates.empty()) {
    return Status::system_error("the rendezvous cannot listen: " + std::string(refusal.message()));
  }
  id.addresses = std::move(used);
  return gates;
}

}  // namespace

Server::Server(const UniqueId& id, std::shared_ptr<ServerLoop> loop)
    : id_(id), loop_(std::move(loop)) {}

Server::~Server() {
  if (!thread_.joinable()) return;
  loop_->stop();
  thread_.join();
}

Result<std::unique_ptr<Server>> Server::start(const UniqueId& id, const ServerOptions& options) {
  UniqueId actual = id;
  Result<ServerLoop::Gates> gates = open_gates(actual);
  if (!gates.ok()) return gates.status();
  return start_behind(std::move(gates).value(), actual, options);
}

Result<std::unique_ptr<Server>> Server::start_on(KeptFd listener, const UniqueId& id,
                                                 const ServerOptions& options) {
  Gates gates;
  gates.push_back(
      std::make_unique<transport::door::Gate>(std::move(listener), id.key, server_identity(id)));
  return start_behind(std::move(gates), id, options);
}

Result<std::unique_ptr<Server>> Server::start_behind(Gates gates, const UniqueId& id,
                                                     const ServerOptions& options) {
  Fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return errno_status("eventfd");
  auto loop = std::make_shared<ServerLoop>(std::move(gates), std::move(bell), options);
  std::unique_ptr<Server> made(new Server(id, loop));
  Result<std::thread> thread = start_thread("tutti-meet", [loop] { loop->run(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = std::move(thread).value();
  return made;
}

void Server::finish(const WaitLimit& wait_limit) const {
  constexpr useconds_t kPauseUs = 200;
  const std::string ranks = "the ranks that met here have not all read their answers";
  wait_limit.waits_for(ranks);
  while (!finished() && !wait_limit.over()) {
    wait_limit.tell_if_due();
    usleep(kPauseUs);
  }
}

void Server::fail(const Status& reason) const { loop_->fail(reason); }

bool Server::finished() const { return loop_->finished(); }

void Server::release(std::unique_ptr<Server> server) {
  released().add(server->id_.port, server->loop_);
  server->thread_.detach();
}

namespace {

Result<std::unique_ptr<Server>> open(std::vector<Address> addresses, const Config& config,
                                     const SecretKey* secret) {
  UniqueId id;
  id.port = config.port;
  id.addresses = std::move(addresses);
  if (id.addresses.size() > UniqueId::kMaxAddresses) id.addresses.resize(UniqueId::kMaxAddresses);
  if (Status status = make_secrets(id); !status.ok()) return status;
  if (secret != nullptr) id.make_public(*secret);
  ServerOptions options;
  options.idle_ns = config.init_timeout_ns;
  return Server::start(id, options);
}

}  // namespace

Result<std::unique_ptr<Server>> open_server(std::vector<Address> addresses, const Config& config) {
  return open(std::move(addresses), config, nullptr);
}

Result<UniqueId> create_unique_id(const Config& config, const Variables& variables,
                                  const SecretKey* secret) {
  const auto own = announced_interfaces(config, [&] { return named_places(config, variables); });
  if (!own.ok()) return own.status();
  Result<std::unique_ptr<Server>> server = open(addresses_of(own.value()), config, secret);
  if (!server.ok()) return server.status();
  const UniqueId actual = server.value()->id();
  Server::release(std::move(server).value());
  return actual;
}

}  // namespace tutti::bootstrap
