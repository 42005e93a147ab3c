#include <atomic>
#include <map>
#include <tuple>

#include "src/runtime/queue/protocol.h"
#include "src/runtime/queue/server.h"

namespace tutti::runtime {
namespace queue {
namespace {

/// Cells by step, row and field. The token says which put of a cell its bytes are of.
class StorageService : public Service {
 public:
  explicit StorageService(Bytes budget) : budget_(budget.value) {
    require(budget_ >= 1, "a storage unit may hold ", budget_, " bytes; give 1 or more");
  }

  int64_t held() const { return held_.load(std::memory_order_relaxed); }

  std::optional<std::string> answer(int64_t /*owner*/, std::string_view bytes,
                                    bool /*is_last*/) override {
    WordReader request(bytes);
    const auto what = static_cast<Ask>(request.number());
    if (what == Ask::kForget) {
      const int64_t step = request.number();
      forget(cells_.lower_bound({step, 0, 0}), cells_.lower_bound({step + 1, 0, 0}));
      return "";
    }
    require(what == Ask::kStore || what == Ask::kLoad, "request ", int64_t(what),
            " is none of a storage unit; is this the address of a controller?");
    const QueueRow row = read_row(request);
    const Place place{row.step, row.row, request.number()};
    const int64_t token = request.number();
    if (what == Ask::kLoad) return load(place, token);
    forget_before(request.number());
    store(place, token, request.text());
    request.end();
    return "";
  }

  void gone(int64_t /*owner*/) override {}
  Deadline tick(Deadline now) override { return now + std::chrono::seconds(1); }

 private:
  using Place = std::tuple<int64_t, int64_t, int64_t>;  // step, row, field
  struct StoredCell {
    int64_t token = 0;
    std::string bytes;
  };
  using Cells = std::map<Place, StoredCell>;

  void forget(Cells::iterator first, Cells::iterator last) {
    for (auto it = first; it != last; ++it) held_ -= std::ssize(it->second.bytes);
    cells_.erase(first, last);
  }

  /// A client that clears a step may die before it has told all units; the next put makes up for
  /// it.
  void forget_before(int64_t step) {
    if (step <= oldest_) return;
    oldest_ = step;
    forget(cells_.begin(), cells_.lower_bound({step, 0, 0}));
  }

  void store(const Place& place, int64_t token, std::string_view bytes) {
    require(std::get<0>(place) >= oldest_, "step ", std::get<0>(place),
            " was cleared while this put was under way");
    StoredCell& cell = cells_[place];
    require(token > cell.token, "this put was overtaken by another one of the cell");
    const int64_t after = held_ - std::ssize(cell.bytes) + std::ssize(bytes);
    if (after > budget_) {
      const bool is_new = cell.token == 0;
      if (is_new) cells_.erase(place);
      infeasible("the storage unit holds ", held(), " of at most ", budget_,
                 " bytes, and a put brings ", bytes.size(),
                 "; clear a step, or give it a larger budget");
    }
    cell.token = token;
    cell.bytes.assign(bytes);
    held_ = after;
  }

  std::string load(const Place& place, int64_t token) const {
    const auto found = cells_.find(place);
    if (found == cells_.end() || found->second.token != token) {
      infeasible("row ", std::get<1>(place), " of step ", std::get<0>(place),
                 " is not on its storage unit any more: the step was cleared, or the unit was "
                 "started anew");
    }
    return found->second.bytes;
  }

  int64_t budget_;
  int64_t oldest_ = 0;
  std::atomic<int64_t> held_{0};  // changed by the server's thread alone
  Cells cells_;
};

}  // namespace
}  // namespace queue

class StorageUnit::Impl {
 public:
  Impl(const std::string& address, Bytes budget, std::string_view key)
      : service(budget), server(address, key, service) {}

  queue::StorageService service;
  queue::QueueServer server;
};

StorageUnit::StorageUnit(const std::string& address, Bytes budget, std::string_view key)
    : impl_(std::make_unique<Impl>(address, budget, key)) {}
StorageUnit::~StorageUnit() = default;
const std::string& StorageUnit::address() const { return impl_->server.address(); }
Bytes StorageUnit::held() const { return Bytes(impl_->service.held()); }

}  // namespace tutti::runtime
