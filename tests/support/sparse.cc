#include "tests/support/sparse.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "src/base/io.h"
#include "src/diagnosis/stall.h"

namespace tutti::testing_support {
namespace {

struct Setting {
  SparseBoard* board = nullptr;
  const transport::Factory* wrapped = nullptr;
};

Setting& setting() {
  static Setting setting;  // tidy: allow mutable (a factory is a plain function)
  return setting;
}

class SparseLink final : public transport::Link, public transport::Stream {
 public:
  using Channel = transport::ChannelId;

  SparseLink(std::unique_ptr<transport::Link> inner, SparseBoard& board, int rank, int peer)
      : inner_(std::move(inner)),
        stream_(*inner_->stream()),
        board_(board),
        rank_(rank),
        peer_(peer) {}

  const transport::Capabilities& capabilities() const override { return inner_->capabilities(); }
  transport::Stream* stream() override { return this; }
  transport::OneSided* one_sided() override { return inner_->one_sided(); }
  bool hang_up() override { return inner_->hang_up(); }
  void want() override {
    board_.connect(rank_, peer_);
    look();
  }
  Status status() const override { return connected() ? inner_->status() : Status(); }
  int liveness_fd() const override { return connected() ? inner_->liveness_fd() : -1; }
  State state() const override { return connected() ? inner_->state() : State::kIdle; }
  /// Also where it has settled: from within serve().
  void on_settled(std::function<void()> call) override {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }
  void on_failed(std::function<void()> hook) override { inner_->on_failed(std::move(hook)); }
  /// Wants the connection here if the other side wanted it.
  void look() {
    if (connected() && !wanted_.exchange(true)) inner_->want();
  }
  void announce() {
    const bool settled = state() == State::kConnected || state() == State::kFailed;
    const std::lock_guard lock(mutex_);
    if (!call_ || !settled) return;
    std::exchange(call_, nullptr)();
    board_.settled[rank_][peer_].store(true, std::memory_order_release);
  }

  Ticket send(Channel channel, uint32_t signature,
              std::span<const transport::ConstBuffer> pieces) override {
    want();
    return stream_.send(channel, signature, pieces);
  }
  Ticket receive(Channel channel, uint32_t signature,
                 std::span<const transport::Buffer> pieces) override {
    want();
    return stream_.receive(channel, signature, pieces);
  }
  bool sent(Ticket ticket) const override { return stream_.sent(ticket); }
  bool received(Ticket ticket) const override { return stream_.received(ticket); }
  void tell(Channel channel, const transport::Note& note) override {
    if (!connected()) return;  // nobody will have heard of it
    if (channel.lane == diagnosis::kNoticeLane) board_.notices[rank_][peer_].fetch_add(1);
    stream_.tell(channel, note);
  }
  uint64_t heard(Channel channel, transport::Note& note) const override {
    return stream_.heard(channel, note);
  }
  void on_note(std::function<void(Channel)> hook) override { stream_.on_note(std::move(hook)); }
  bool progress() override { return connected() && stream_.progress(); }
  Status epoch_status(transport::EpochId epoch) const override {
    return stream_.epoch_status(epoch);
  }
  void prioritize(transport::EpochId epoch, transport::Priority priority) override {
    stream_.prioritize(epoch, priority);
  }
  void end_epoch(transport::EpochId epoch) override { stream_.end_epoch(epoch); }
  bool has_let_go(transport::EpochId epoch) override { return stream_.has_let_go(epoch); }

 private:
  bool connected() const { return board_.has(rank_, peer_); }

  const std::unique_ptr<transport::Link> inner_;
  transport::Stream& stream_;
  SparseBoard& board_;
  const int rank_, peer_;
  std::mutex mutex_;
  std::function<void()> call_;  // under mutex_: until the link has settled
  std::atomic<bool> wanted_{false};
};

/// A link that is given away, while the transport still looks at it.
class Lent final : public transport::Link {
 public:
  explicit Lent(std::shared_ptr<SparseLink> link) : link_(std::move(link)) {}

  const transport::Capabilities& capabilities() const override { return link_->capabilities(); }
  transport::Stream* stream() override { return link_.get(); }
  transport::OneSided* one_sided() override { return link_->one_sided(); }
  bool hang_up() override { return link_->hang_up(); }
  void want() override { link_->want(); }
  State state() const override { return link_->state(); }
  void on_settled(std::function<void()> call) override { link_->on_settled(std::move(call)); }
  void on_failed(std::function<void()> hook) override { link_->on_failed(std::move(hook)); }
  Status status() const override { return link_->status(); }
  int liveness_fd() const override { return link_->liveness_fd(); }

 private:
  const std::shared_ptr<SparseLink> link_;
};

class Sparse final : public transport::Transport {
 public:
  static Result<std::unique_ptr<transport::Transport>> make(
      std::unique_ptr<transport::Transport> inner, SparseBoard& board, int rank) {
    Fd set(epoll_create1(EPOLL_CLOEXEC));
    Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const itimerspec often{{0, kLookNs}, {0, kLookNs}};
    epoll_event event{};
    event.events = EPOLLIN;
    const bool made = set.valid() && timer.valid() &&
                      timerfd_settime(timer.get(), 0, &often, nullptr) == 0 &&
                      epoll_ctl(set.get(), EPOLL_CTL_ADD, timer.get(), &event) == 0 &&
                      epoll_ctl(set.get(), EPOLL_CTL_ADD, inner->service_fd(), &event) == 0;
    if (!made) return errno_status("a sparse transport");
    return std::unique_ptr<transport::Transport>(
        new Sparse(std::move(inner), board, rank, std::move(set), std::move(timer)));
  }

  std::string_view name() const override { return "sparse"; }
  std::string card() const override { return inner_->card(); }
  bool reaches(std::string_view peer_card) const override { return inner_->reaches(peer_card); }
  std::string_view level() const override { return "network"; }
  size_t descriptors_per_link() const override { return inner_->descriptors_per_link(); }
  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   const WaitLimit& wait_limit) override {
    auto inner = inner_->connect(peer, peer_card, wait_limit);
    if (!inner.ok()) return inner.status();
    const auto link = std::make_shared<SparseLink>(std::move(inner).value(), board_, rank_, peer);
    const std::lock_guard lock(mutex_);
    links_.push_back(link);
    return std::unique_ptr<transport::Link>(std::make_unique<Lent>(link));
  }

  int service_fd() const override { return set_.get(); }
  void stop_serving() override { inner_->stop_serving(); }
  void serve() override {
    uint64_t ticks = 0;
    [[maybe_unused]] const ssize_t bytes = read(timer_.get(), &ticks, sizeof ticks);
    if (board_.held.load(std::memory_order_acquire) == rank_) return;
    inner_->serve();
    std::vector<std::weak_ptr<SparseLink>> links;
    {
      const std::lock_guard lock(mutex_);
      links = links_;
    }
    for (const auto& weak : links) {
      const auto link = weak.lock();
      if (link == nullptr) continue;
      link->look();
      link->announce();
    }
  }

 private:
  static constexpr long kLookNs = 1'000'000;

  Sparse(std::unique_ptr<transport::Transport> inner, SparseBoard& board, int rank, Fd set,
         Fd timer)
      : inner_(std::move(inner)),
        board_(board),
        rank_(rank),
        set_(std::move(set)),
        timer_(std::move(timer)) {}

  const std::unique_ptr<transport::Transport> inner_;
  SparseBoard& board_;
  const int rank_;
  const Fd set_;    // to sleep on: the wrapped transport's descriptor and the timer
  const Fd timer_;  // the other side wants a connection on the board, which wakes nobody
  std::mutex mutex_;
  std::vector<std::weak_ptr<SparseLink>> links_;  // under mutex_
};

Result<std::unique_ptr<transport::Transport>> make_sparse(const transport::Member& member) {
  auto inner = setting().wrapped->make(member);
  if (!inner.ok()) return inner.status();
  return Sparse::make(std::move(inner).value(), *setting().board, member.rank);
}

}  // namespace

void set_sparse(SparseBoard& board, const transport::Factory& wrapped) {
  setting() = {&board, &wrapped};
}

transport::Factory sparse_factory() { return {"sparse", make_sparse}; }

}  // namespace tutti::testing_support
