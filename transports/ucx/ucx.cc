#include "transports/ucx/ucx.h"

#include <string>
#include <utility>

#include "transports/tcp/met_transport.h"
#include "transports/ucx/contexts.h"
#include "transports/ucx/pipe.h"

namespace tutti::transports::ucx {
namespace {

constexpr tcp::MetTransport::MetKind kKind{"ucx", "tutti-ucx-1", "UCX"};

class Ucx final : public tcp::MetTransport {
 public:
  Ucx(const transport::Member& member, std::string absence)
      : MetTransport(member, kKind, std::move(absence)) {}
  Ucx(const transport::Member& member, std::shared_ptr<UcxContexts> contexts,
      std::shared_ptr<UcxContext> context, MetDoor door)
      : MetTransport(member, kKind, std::move(door)),
        contexts_(std::move(contexts)),
        context_(std::move(context)) {}

  /// The socket, a clock, a set of all; and two workers, each with some of UCX's own.
  size_t descriptors_per_link() const override { return 3 + 2 * 9; }

  Result<std::shared_ptr<const void>> announce(transport::Buffer memory) override {
    if (context_ == nullptr) return std::shared_ptr<const void>();
    return register_range(*ranges_, context_, memory.data, memory.bytes);
  }

 private:
  MadePipe open_pipe(tcp::PeerSocket socket, int, const WaitLimit& wait_limit) override {
    auto pipe =
        UcxPipe::open({context_, ranges_, contexts_->farewells()}, std::move(socket), wait_limit);
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::stream::MessagePipe>(std::move(pipe).value());
  }
  std::string place() const override { return "UCX's " + context_->network().devices; }

  const std::shared_ptr<UcxContexts> contexts_;
  const std::shared_ptr<UcxContext> context_;
  const std::shared_ptr<UcxRanges> ranges_ = std::make_shared<UcxRanges>();
};

Result<std::shared_ptr<UcxContexts>> contexts_for(const transport::Member& member) {
  if (member.endpoint == nullptr) return std::make_shared<UcxContexts>();
  const auto make_one = []() -> Result<std::unique_ptr<transport::Endpoint::EndpointPart>> {
    return std::unique_ptr<transport::Endpoint::EndpointPart>(std::make_unique<UcxContexts>());
  };
  auto part = member.endpoint->part("ucx", make_one);
  if (!part.ok()) return part.status();
  return std::static_pointer_cast<UcxContexts>(std::move(part).value());
}

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  Result<std::shared_ptr<UcxContexts>> contexts = contexts_for(member);
  if (!contexts.ok()) return contexts.status();
  Result<std::shared_ptr<UcxContext>> context = contexts.value()->context_for(member);
  if (context.status().code() == Code::kUnsupported) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Ucx>(member, std::string(context.status().message())));
  }
  if (!context.ok()) return context.status();
  auto door = tcp::MetTransport::open_door(member, context.value()->network().kind);
  if (!door.ok()) return door.status();
  return std::unique_ptr<transport::Transport>(std::make_unique<Ucx>(
      member, std::move(contexts).value(), std::move(context).value(), std::move(door).value()));
}

}  // namespace tutti::transports::ucx
