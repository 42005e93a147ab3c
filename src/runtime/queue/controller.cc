#include "src/runtime/queue/protocol.h"
#include "src/runtime/queue/server.h"
#include "src/runtime/queue/table.h"

namespace tutti::runtime {
namespace queue {
namespace {

int64_t nanoseconds(Deadline time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

/// Throws for the wait that is over, and names who is waited for.
template <class Why>
std::optional<std::string> not_yet(bool is_last, const Why& why) {
  if (is_last) infeasible("the wait is over: ", why());
  return std::nullopt;
}

ClaimSpec read_claim(WordReader& from) {
  ClaimSpec spec;
  spec.rows = from.number();
  spec.least = from.number();
  spec.step = from.number();
  spec.group = from.number();
  spec.window = from.number();
  return spec;
}

/// The controller's requests, each a few words, answered from the table.
class ControllerService : public Service {
 public:
  explicit ControllerService(const QueueSpec& spec) : table_(spec) {}

  std::optional<std::string> answer(int64_t owner, std::string_view bytes, bool is_last) override {
    WordReader request(bytes);
    const auto what = static_cast<Ask>(request.number());
    switch (what) {
      case Ask::kHello:
        return hello();
      case Ask::kReserve:
        return reserve(owner, request, is_last);
      case Ask::kCommit:
      case Ask::kWithdraw:
        return end_put(what, owner, request);
      case Ask::kAddTask:
        return add_task(request);
      case Ask::kClaim:
        return claim(owner, request, is_last);
      case Ask::kAck:
      case Ask::kRenew:
      case Ask::kRelease:
        return change_loan(what, owner, request);
      case Ask::kDrain:
        return drain(request.number(), is_last);
      case Ask::kClear:
        return WordWriter().number(table_.clear(request.number())).take();
      case Ask::kPublish:
        table_.publish(request.number());
        return "";
      case Ask::kVersion:
        return version(request, is_last);
      case Ask::kCounts:
      case Ask::kExpired:
      case Ask::kForm:
        return look_up(what, request);
      default:
        break;
    }
    require(false, "request ", int64_t(what),
            " is none of a controller; is this the address of a storage unit?");
    return "";
  }

  void gone(int64_t owner) override { table_.drop_owner(owner); }

  Deadline tick(Deadline now) override {
    table_.expire(nanoseconds(now));
    const int64_t end = table_.next_end();
    // Nothing is lent: the time of the next look does not matter.
    if (end == std::numeric_limits<int64_t>::max()) return now + std::chrono::seconds(1);
    return Deadline(std::chrono::nanoseconds(end));
  }

 private:
  static int64_t now() { return nanoseconds(Clock::now()); }

  std::string hello() const {
    WordWriter answer;
    answer.number(table_.spec().ring_steps).number(table_.spec().rows);
    write_texts(answer, table_.spec().fields);
    write_texts(answer, table_.spec().units);
    return answer.take();
  }

  std::optional<std::string> reserve(int64_t owner, WordReader& request, bool is_last) {
    CellName cell{read_row(request), 0};
    cell.field = table_.field_of(request.text());
    const std::string_view form = request.text();
    request.end();
    const auto found = table_.reserve(owner, cell, form, now());
    if (!found) return not_yet(is_last, [&] { return table_.why_not_reserve(cell); });
    return WordWriter().number(found->token).number(found->oldest).take();
  }

  std::string end_put(Ask what, int64_t owner, WordReader& request) {
    const int64_t token = request.number();
    if (what == Ask::kWithdraw) {
      table_.withdraw(owner, token);
      return "";
    }
    const int64_t version = request.number();
    table_.commit(owner, token, version, request.number());
    return "";
  }

  std::string add_task(WordReader& request) {
    QueueTaskSpec task;
    task.name = request.text();
    task.max_staleness = request.number();
    task.fields = read_texts(request);
    table_.add_task(task);
    return "";
  }

  std::optional<std::string> claim(int64_t owner, WordReader& request, bool is_last) {
    const std::string_view task = request.text();
    const ClaimSpec spec = read_claim(request);
    request.end();
    const auto batch = table_.claim(owner, task, spec, now());
    if (!batch) return not_yet(is_last, [&] { return table_.why_not_claim(task, spec); });
    WordWriter answer;
    answer.number(batch->id);
    write_rows(answer, batch->rows);
    write_numbers(answer, batch->weights);
    write_numbers(answer, batch->versions);
    write_numbers(answer, batch->tokens);
    write_texts(answer, batch->fields);
    return answer.take();
  }

  std::string change_loan(Ask what, int64_t owner, WordReader& request) {
    const int64_t batch = request.number();
    if (what == Ask::kAck) table_.ack(owner, batch);
    if (what == Ask::kRenew) table_.renew(owner, batch, now());
    if (what == Ask::kRelease) table_.release(owner, batch);
    return "";
  }

  std::optional<std::string> version(WordReader& request, bool is_last) {
    const int64_t least = request.number();
    if (table_.version() < least) {
      return not_yet(is_last, [&] {
        return words("version ", least, " of the weights has not been published; the last one is ",
                     table_.version());
      });
    }
    return WordWriter().number(table_.version()).take();
  }

  std::optional<std::string> drain(int64_t step, bool is_last) {
    const int64_t left = table_.unread(step);
    if (left == 0) return "";
    return not_yet(is_last, [&] {
      return words(left, " rows of step ", step, " are still to be consumed, summed over tasks");
    });
  }

  std::string look_up(Ask what, WordReader& request) const {
    WordWriter answer;
    if (what == Ask::kForm) {
      const int64_t step = request.number();
      return answer.text(table_.form(step, table_.field_of(request.text()))).take();
    }
    const std::string_view task = request.text();
    if (what == Ask::kExpired) {
      write_rows(answer, table_.expired(task, request.number()));
      return answer.take();
    }
    const QueueTaskCounts counts = table_.counts(task);
    answer.number(counts.consumed).number(counts.lent).number(counts.free);
    return answer.number(counts.lapsed).number(counts.expired).take();
  }

  Table table_;
};

}  // namespace
}  // namespace queue

class QueueController::Impl {
 public:
  Impl(const std::string& address, const QueueSpec& spec, std::string_view key)
      : service(spec), server(address, key, service) {}

  queue::ControllerService service;
  queue::QueueServer server;
};

QueueController::QueueController(const std::string& address, const QueueSpec& spec,
                                 std::string_view key)
    : impl_(std::make_unique<Impl>(address, spec, key)) {}
QueueController::~QueueController() = default;
const std::string& QueueController::address() const { return impl_->server.address(); }

}  // namespace tutti::runtime
