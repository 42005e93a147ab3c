#include "transports/flows/flows_transport.h"

#include <string>
#include <utility>

#include "src/transport/door/gate.h"
#include "transports/flows/opening.h"
#include "transports/flows/pipe.h"
#include "transports/tcp/met_transport.h"

namespace tutti::transports::flows {
namespace {

constexpr tcp::MetTransport::MetKind kKind{"flows", "tutti-flows-1", "TCP"};

class Flows final : public tcp::MetTransport {
 public:
  Flows(const transport::Member& member, std::string absence)
      : MetTransport(member, kKind, std::move(absence)) {}
  Flows(const transport::Member& member, MetDoor door)
      : MetTransport(member, kKind, std::move(door)) {}

  std::string_view level() const override { return "network"; }
  /// The proved socket, a set, and the flows.
  size_t descriptors_per_link() const override {
    return 2 + (member().tcp_flows == 0 ? kMostFlows : member().tcp_flows);
  }

 private:
  MadePipe open_pipe(tcp::PeerSocket socket, int peer, const WaitLimit& wait_limit) override {
    const uint32_t wish = member().tcp_flows != 0
                              ? member().tcp_flows
                              : flows_for(transport::path_between(member(), peer),
                                          transport::door::Gate::round_trip_of_tcp(socket.get()));
    auto sockets = open_flows(socket.get(), wish, member().rank > peer, wait_limit);
    if (!sockets.ok()) return sockets.status();
    auto pipe = FlowsPipe::open(std::move(socket), std::move(sockets).value());
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::stream::MessagePipe>(std::move(pipe).value());
  }
  std::string place() const override { return "several sockets"; }
};

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  if (member.tcp_flows == 1) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Flows>(member, "TUTTI_TCP_FLOWS is 1"));
  }
  auto door = tcp::MetTransport::open_door(member, std::to_string(member.tcp_flows));
  if (!door.ok()) return door.status();
  return std::unique_ptr<transport::Transport>(
      std::make_unique<Flows>(member, std::move(door).value()));
}

}  // namespace tutti::transports::flows
