// Answers requests of many connections in one thread: a controller's and a storage unit's.
//
// A client sends one request at a time and waits for its answer. A request that cannot be answered
// yet stays until another one has changed something, or until the time that it names is over.
//
// Owns:    the thread, which ends with the object; the sockets.
// Threads: the service is called by that thread only.
// Errors:  an Error that the service throws is the answer; its client throws it again. Callers that
//          do not prove that they hold the key within some seconds are hung up on, and at most 64
//          of them are heard at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "src/runtime/queue/sockets.h"

namespace tutti::runtime::queue {

class Service {
 public:
  virtual ~Service() = default;
  /// Nothing: not yet. With `is_last` it must answer or throw.
  virtual std::optional<std::string> answer(int64_t owner, std::string_view request,
                                            bool is_last) = 0;
  /// The connection has ended.
  virtual void gone(int64_t owner) = 0;
  /// Called now and then; when it wants to be called again at the latest.
  virtual Deadline tick(Deadline now) = 0;
};

class QueueServer {
 public:
  QueueServer(const std::string& address, std::string_view key, Service& service);
  ~QueueServer();
  QueueServer(const QueueServer&) = delete;
  QueueServer& operator=(const QueueServer&) = delete;
  const std::string& address() const { return listener_.address; }

 private:
  struct ServedClient {
    Socket socket;
    Nonce nonce{};
    bool is_proved = false;
    bool is_over = false;
    Deadline prove_by;
    std::string in, out;
    size_t sent = 0;     // of `out`
    bool waits = false;  // a request is at the front of `in` and has no answer yet
    Deadline answer_by;  // of that request
  };

  void serve();
  void wait(Deadline until);
  void accept();
  void receive(ServedClient& caller);
  void check_proof(ServedClient& caller);
  void begin_request(ServedClient& caller);
  /// True if the request has its answer.
  bool try_answer(int64_t id, ServedClient& caller, Deadline now);
  void answer_all();
  void flush(ServedClient& caller);
  void drop_ended();
  Deadline next_time(Deadline tick) const;

  std::string key_;
  Service& service_;
  QueueListener listener_;
  Socket wake_;
  std::map<int64_t, ServedClient> callers_;
  int64_t next_id_ = 1;
  bool may_accept_ = false;
  bool is_ending_ = false;
  std::thread thread_;  // last, as it uses all others
};

}  // namespace tutti::runtime::queue
