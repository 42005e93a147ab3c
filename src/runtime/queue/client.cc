#include <sys/socket.h>

#include <algorithm>

#include "src/runtime/index.h"
#include "src/runtime/queue/protocol.h"
#include "src/runtime/queue/sockets.h"
#include "src/runtime/queue/table.h"

namespace tutti::runtime {
namespace queue {
namespace {

/// Beyond what a request may wait at the other end: for a busy machine, and for the way.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kAtOnce{0};

/// One server of the queue, connected to. After an exchange that failed half way it only fails.
class QueueLine {
 public:
  QueueLine(std::string address, std::string_view key, std::chrono::milliseconds timeout)
      : address_(std::move(address)) {
    const Deadline deadline = Clock::now() + timeout;
    socket_ = connect_to(address_, key, deadline);
    prove(socket_, key, address_, std::max(deadline, Clock::now() + std::chrono::seconds(5)));
  }

  /// `bytes` go behind the request without a copy of them.
  std::string exchange(WordWriter request, std::chrono::milliseconds wait = kAtOnce,
                       std::string_view bytes = {}) {
    if (is_broken_) {
      throw Error(ErrorKind::kCommunication, words("transfer queue at ", address_,
                                                   ": an earlier exchange failed half way; "
                                                   "make a new client"));
    }
    const Deadline deadline = Clock::now() + wait + kPatience;
    is_broken_ = true;
    send_frame(socket_, request.take(), bytes, address_, deadline);
    std::string answer = recv_frame(socket_, address_, deadline);
    is_broken_ = false;
    WordReader reader(answer);
    const int64_t status = reader.number();
    if (status == 0) return answer.substr(sizeof(int64_t));
    throw Error(static_cast<ErrorKind>(status - 1), std::string(reader.text()));
  }

  void interrupt() { shutdown(socket_.fd(), SHUT_RDWR); }

 private:
  std::string address_;
  Socket socket_;
  bool is_broken_ = false;
};

}  // namespace
}  // namespace queue

using queue::Ask;
using queue::ask;
using queue::WordReader;
using queue::WordWriter;

class QueueClient::Impl {
 public:
  Impl(const std::string& address, std::string_view key, std::chrono::milliseconds timeout)
      : key_(key), timeout_(timeout), controller(address, key, timeout) {
    const std::string answer = controller.exchange(ask(queue::kAtOnce, Ask::kHello));
    WordReader reader(answer);
    reader.number();  // the ring
    reader.number();  // rows of a step
    fields_ = queue::read_texts(reader);
    addresses_ = queue::read_texts(reader);
    units_.resize(addresses_.size());
  }

  int64_t field_of(std::string_view name) const {
    const auto found = std::find(fields_.begin(), fields_.end(), name);
    require(found != fields_.end(), "the queue has no field '", name, "'");
    return found - fields_.begin();
  }

  queue::QueueLine& unit_of(const QueueRow& row) {
    const size_t place = size_t(row.row) % units_.size();
    if (!units_[place]) {
      units_[place] = std::make_unique<queue::QueueLine>(addresses_[place], key_, timeout_);
    }
    return *units_[place];
  }

  void forget(int64_t step) {
    for (size_t u = 0; u < units_.size(); ++u) {
      WordWriter request = ask(queue::kAtOnce, Ask::kForget);
      request.number(step);
      unit_of({step, int64_t(u)}).exchange(std::move(request));
    }
  }

  bool put(const Put& put, std::span<const std::byte> bytes) {
    WordWriter request = ask(put.timeout, Ask::kReserve);
    request.number(put.row.step).number(put.row.row).text(put.field).text(put.form);
    const std::string answer = controller.exchange(std::move(request), put.timeout);
    WordReader reader(answer);
    const int64_t token = reader.number();
    if (token == 0) return false;
    try {
      store(put, token, reader.number(), bytes);
    } catch (const Error&) {
      WordWriter withdraw = ask(queue::kAtOnce, Ask::kWithdraw);
      withdraw.number(token);
      controller.exchange(std::move(withdraw));
      throw;
    }
    WordWriter commit = ask(queue::kAtOnce, Ask::kCommit);
    commit.number(token).number(put.version).number(put.weight);
    controller.exchange(std::move(commit));
    return true;
  }

  std::string load(const QueueRow& row, int64_t field, int64_t token) {
    WordWriter request = ask(queue::kAtOnce, Ask::kLoad);
    request.number(row.step).number(row.row).number(field).number(token);
    return unit_of(row).exchange(std::move(request));
  }

  void of_batch(Ask what, const QueueBatch& batch) {
    WordWriter request = ask(queue::kAtOnce, what);
    request.number(batch.id);
    controller.exchange(std::move(request));
  }

 private:
  void store(const Put& put, int64_t token, int64_t oldest, std::span<const std::byte> bytes) {
    WordWriter request = ask(queue::kAtOnce, Ask::kStore);
    request.number(put.row.step).number(put.row.row).number(field_of(put.field));
    request.number(token).number(oldest).number(std::ssize(bytes));
    unit_of(put.row).exchange(std::move(request), queue::kAtOnce,
                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  std::string key_;
  std::chrono::milliseconds timeout_;
  std::vector<std::string> fields_, addresses_;
  std::vector<std::unique_ptr<queue::QueueLine>> units_;

 public:
  queue::QueueLine controller;
};

QueueClient::QueueClient(const std::string& address, std::string_view key,
                         std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(address, key, timeout)) {}
QueueClient::~QueueClient() = default;

void QueueClient::interrupt() { impl_->controller.interrupt(); }

void QueueClient::add_task(const QueueTaskSpec& task) {
  WordWriter request = ask(queue::kAtOnce, Ask::kAddTask);
  request.text(task.name).number(task.max_staleness);
  queue::write_texts(request, task.fields);
  impl_->controller.exchange(std::move(request));
}

bool QueueClient::put_if_absent(const Put& put, std::span<const std::byte> bytes) {
  require(put.version >= 0, "version ", put.version, " of a row is negative");
  require(put.weight >= -1, "weight ", put.weight, " of a row is negative");
  require(put.timeout.count() >= 0, "a timeout of ", put.timeout.count(), " ms is negative");
  return impl_->put(put, bytes);
}

void QueueClient::put(const Put& put, std::span<const std::byte> bytes) {
  require(put_if_absent(put, bytes), "field '", put.field, "' of row ", put.row.row, " of step ",
          put.row.step, " was put before; put_if_absent() takes this for a success");
}

QueueBatch QueueClient::claim(std::string_view task, const ClaimSpec& spec) {
  require(spec.timeout.count() >= 0, "a timeout of ", spec.timeout.count(), " ms is negative");
  WordWriter request = ask(spec.timeout, Ask::kClaim);
  request.text(task).number(spec.rows).number(spec.least).number(spec.step);
  request.number(spec.group).number(spec.window);
  const std::string answer = impl_->controller.exchange(std::move(request), spec.timeout);
  WordReader reader(answer);
  QueueBatch batch;
  batch.id = reader.number();
  batch.rows = queue::read_rows(reader);
  batch.weights = queue::read_numbers(reader);
  batch.versions = queue::read_numbers(reader);
  batch.tokens = queue::read_numbers(reader);
  batch.fields = queue::read_texts(reader);
  return batch;
}

QueueSamples QueueClient::fetch(const QueueBatch& batch) {
  require(batch.tokens.size() == batch.rows.size() * batch.fields.size(), "a batch has ",
          batch.tokens.size(), " tokens for ", batch.rows.size(), " rows and ", batch.fields.size(),
          " fields; pass what claim() has given");
  QueueSamples samples;
  samples.fields = batch.fields.size();
  size_t token = 0;
  for (const QueueRow& row : batch.rows) {
    for (const std::string& field : batch.fields) {
      samples.bytes.push_back(impl_->load(row, impl_->field_of(field), batch.tokens[token++]));
    }
  }
  return samples;
}

void QueueClient::ack(const QueueBatch& batch) { impl_->of_batch(Ask::kAck, batch); }
void QueueClient::renew(const QueueBatch& batch) { impl_->of_batch(Ask::kRenew, batch); }
void QueueClient::release(const QueueBatch& batch) { impl_->of_batch(Ask::kRelease, batch); }

void QueueClient::drain(int64_t step, std::chrono::milliseconds timeout) {
  require(timeout.count() >= 0, "a timeout of ", timeout.count(), " ms is negative");
  WordWriter request = ask(timeout, Ask::kDrain);
  request.number(step);
  impl_->controller.exchange(std::move(request), timeout);
}

int64_t QueueClient::clear(int64_t step) {
  WordWriter request = ask(queue::kAtOnce, Ask::kClear);
  request.number(step);
  const std::string answer = impl_->controller.exchange(std::move(request));
  impl_->forget(step);
  return WordReader(answer).number();
}

void QueueClient::publish(int64_t version) {
  WordWriter request = ask(queue::kAtOnce, Ask::kPublish);
  request.number(version);
  impl_->controller.exchange(std::move(request));
}

int64_t QueueClient::version(int64_t at_least, std::chrono::milliseconds timeout) {
  require(timeout.count() >= 0, "a timeout of ", timeout.count(), " ms is negative");
  WordWriter request = ask(timeout, Ask::kVersion);
  request.number(at_least);
  return WordReader(impl_->controller.exchange(std::move(request), timeout)).number();
}

QueueTaskCounts QueueClient::counts(std::string_view task) {
  WordWriter request = ask(queue::kAtOnce, Ask::kCounts);
  request.text(task);
  const std::string answer = impl_->controller.exchange(std::move(request));
  WordReader reader(answer);
  QueueTaskCounts counts;
  for (int64_t* count :
       {&counts.consumed, &counts.lent, &counts.free, &counts.lapsed, &counts.expired}) {
    *count = reader.number();
  }
  return counts;
}

std::vector<QueueRow> QueueClient::expired(std::string_view task, int64_t step) {
  WordWriter request = ask(queue::kAtOnce, Ask::kExpired);
  request.text(task).number(step);
  const std::string answer = impl_->controller.exchange(std::move(request));
  WordReader reader(answer);
  return queue::read_rows(reader);
}

std::string QueueClient::form(int64_t step, std::string_view field) {
  WordWriter request = ask(queue::kAtOnce, Ask::kForm);
  request.number(step).text(field);
  const std::string answer = impl_->controller.exchange(std::move(request));
  return std::string(WordReader(answer).text());
}

}  // namespace tutti::runtime
