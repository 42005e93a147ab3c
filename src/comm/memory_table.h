// Memory that the ranks of a communicator know of each other: registered for collectives, or a
// window for one-sided access.
//
// Owns: this rank's registrations and windows, and its mappings of the peers'. Threads: the thread
// that drives the communicator; those that say so, any. Lifetime: within what it is given, and
// before the links. Errors: those of the communicator are the Failure's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/comm/attendant.h"
#include "src/comm/failure.h"
#include "src/comm/membership.h"
#include "src/comm/window.h"
#include "src/exec/registrations.h"

namespace tutti::comm {

class MemoryTable {
 public:
  /// `regions_before`: numbers of windows that count as taken. `attendant` may be null.
  MemoryTable(const Membership& membership, exec::Registrations& registrations, Failure& failure,
              Attendant* attendant, uint32_t regions_before)
      : membership_(membership),
        registrations_(registrations),
        failure_(failure),
        attendant_(attendant),
        regions_(regions_before) {}

  /// Told whether links are attended from now on; null: nobody.
  void tell(diagnosis::PeerWatch* watch) { watch_ = watch; }

  /// Of device memory, which every rank has brought; collective.
  using AddOnDevice = std::function<uint64_t(const WindowMemory& mine)>;
  /// Collective. The memory is a whole arena's, or its beginning; or it is all ranks' devices'.
  /// Returns the registration's number, or what `on_device` does.
  Result<uint64_t> add(const WindowMemory& mine, const GatherTexts& gather,
                       const AddOnDevice& on_device);
  /// Known to calls that begin afterwards. This rank's mappings of it go at once, or with the
  /// call that uses registered memory. From any thread, while another one may be in a call.
  Status remove(uint64_t number);
  /// Whether anything is registered, which costs a load.
  bool has_registered() const { return has_registered_.load(std::memory_order_relaxed); }
  /// Whether anything is registered or a window is open. While nothing is being opened.
  bool has_any();
  /// Whether the call that begins may use its buffers as registered memory; then that stays until
  /// end_use(). A buffer of no bytes may lie anywhere.
  bool use(transport::ConstBuffer send, transport::ConstBuffer recv);
  /// Cheap if the call used none.
  void end_use() {
    if (is_in_use_) [[unlikely]]
      take_out_retired();
  }

  /// Collective. The window is the table's. `region` names the communicator; its lane is this
  /// table's to choose. `keep_closed`: somebody may still have closed ones; else this frees them.
  Result<Window*> open(const WindowMemory& mine, transport::ChannelId region,
                       const GatherTexts& gather, bool keep_closed);
  /// Ends this rank's part of it: its memory is not touched any more, unless the error says who is
  /// still inside. From any thread, while another one is in a call. Without an error the window is
  /// freed when this rank opens another one.
  Status close(Window* window, uint64_t deadline_ns);
  /// All of them, before a rank leaves: those that still are inside at the deadline fail the
  /// communicator.
  void close_all(uint64_t deadline_ns);
  /// After a failure: an error if somebody can still touch a part of this rank's.
  Status left_alone(const Status& failure) const;
  /// After a failure: peers begin nothing any more. Waits a moment for those that are inside.
  void shut();
  /// After it nothing but a call moves a link, or touches what the caller may free.
  void leave_attendant();

 private:
  Status map(exec::Registration& made, std::span<const std::string> texts) const;
  Status check_sizes(uint64_t bytes, std::span<const std::string> texts) const;
  Result<uint32_t> keep(exec::Registration made);
  exec::Registration take_out(uint32_t number);
  void take_out_retired();
  void forget_closed();
  Status be_attended();
  Status close_until(Window* window, uint64_t deadline_ns);

  const Membership& membership_;
  exec::Registrations& registrations_;
  Failure& failure_;
  Attendant* const attendant_;
  diagnosis::PeerWatch* watch_ = nullptr;
  std::vector<std::unique_ptr<Window>> windows_;  // also closed ones, which a call may still be in
  uint32_t regions_;
  std::vector<transport::Link*> attended_;
  bool is_shut_ = false;
  bool is_in_use_ = false;  // registered memory; written under mutex_, by the thread in the call
  std::atomic<bool> has_registered_{false};  // written under mutex_
  std::mutex mutex_;
  std::vector<uint32_t> registered_;  // under mutex_; for collectives
  std::vector<uint32_t> retired_;     // under mutex_: the running call may use them
  std::vector<Window*> closed_;       // under mutex_: in windows_
};

}  // namespace tutti::comm
