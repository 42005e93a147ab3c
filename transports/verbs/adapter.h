// An opened port of an RDMA card, and domains of it: what is registered in one can be written by
// the peers of its queue pairs alone, so each key of a communicator has a domain of its own.
//
// Owns:     the context of the card, the domain, registrations.
// Threads:  any.
// Errors:   kUnsupported where this process cannot use the card, kSystemError where something ran
//           out; each says what to do.
// Lifetime: registrations end before their domain, and it before the adapter; each keeps the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "src/base/mutex.h"
#include "src/base/rdma_settings.h"
#include "src/base/status.h"
#include "src/transport/device_range.h"
#include "transports/verbs/card_port.h"
#include "transports/verbs/functions.h"

namespace tutti::transports::verbs {

/// Where cards are, and what drives them: of the system, or of a test.
struct Equipment {
  const api::VerbsFunctions* functions = nullptr;  // null: libibverbs, once a card is there
  std::string cards_folder = kCardsFolder;
};

class Adapter {
 public:
  static Result<std::shared_ptr<Adapter>> open(const Equipment& equipment, const CardPort& port,
                                               const RdmaSettings& settings);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const api::VerbsFunctions& functions() const { return *functions_; }
  api::ibv_context* context() const { return context_; }
  const CardPort& port() const { return port_; }
  const api::ibv_gid& gid() const { return gid_; }
  int gid_index() const { return gid_index_; }
  GidKind gid_kind() const { return gid_kind_; }
  const api::ibv_port_attr& attributes() const { return attributes_; }
  const RdmaSettings& settings() const { return settings_; }

  /// Readable when read_events() has something to do; never waits.
  int event_fd() const { return context_->async_fd; }
  void read_events();
  /// The card works no more.
  bool is_dead() const { return dead_.load(std::memory_order_acquire); }
  /// The port has told that it is down, and not that it is up again.
  bool is_port_down() const { return port_down_.load(std::memory_order_acquire); }
  /// Of the port, in bytes per nanosecond; 0: it says nothing that is known.
  double bytes_per_ns() const;
  /// The event of the card that may explain an error; "" if there was none.
  std::string trouble() const;

 private:
  Adapter(const api::VerbsFunctions& functions, CardPort port, const RdmaSettings& settings)
      : functions_(&functions), port_(std::move(port)), settings_(settings) {}

  Status open_card();
  Status choose_gid(const std::string& folder);

  const api::VerbsFunctions* functions_;
  const CardPort port_;
  const RdmaSettings settings_;
  api::ibv_context* context_ = nullptr;
  api::ibv_port_attr attributes_{};
  api::ibv_gid gid_{};
  int gid_index_ = 0;
  GidKind gid_kind_ = GidKind::kNone;
  std::atomic<bool> dead_{false};
  std::atomic<bool> port_down_{false};
  mutable Mutex mutex_;
  std::string trouble_ TUTTI_GUARDED_BY(mutex_);
};

class Domain {
 public:
  static Result<std::shared_ptr<Domain>> create(std::shared_ptr<Adapter> adapter);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  Adapter& adapter() const { return *adapter_; }
  api::ibv_pd* get() const { return domain_; }

 private:
  Domain(std::shared_ptr<Adapter> adapter, api::ibv_pd* domain)
      : adapter_(std::move(adapter)), domain_(domain) {}

  const std::shared_ptr<Adapter> adapter_;
  api::ibv_pd* const domain_;
};

/// Memory that the card reads and writes; its pages stay where they are.
class CardMemory {
 public:
  /// `access`: api::kAccess..., those that peers have among them.
  static Result<std::unique_ptr<CardMemory>> create(std::shared_ptr<Domain> domain, void* memory,
                                                    size_t bytes, int access);
  /// Of a device. kUnsupported: libibverbs or the card's driver cannot.
  static Result<std::unique_ptr<CardMemory>> create(std::shared_ptr<Domain> domain,
                                                    const transport::DeviceRange& memory,
                                                    int access);
  ~CardMemory();
  CardMemory(const CardMemory&) = delete;
  CardMemory& operator=(const CardMemory&) = delete;

  uint32_t local_key() const { return registration_->lkey; }
  uint32_t remote_key() const { return registration_->rkey; }

 private:
  CardMemory(std::shared_ptr<Domain> domain, api::ibv_mr* registration)
      : domain_(std::move(domain)), registration_(registration) {}

  const std::shared_ptr<Domain> domain_;
  api::ibv_mr* const registration_;
};

}  // namespace tutti::transports::verbs
