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
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/failure.h"
#include "src/comm/membership.h"
#include "src/comm/progress_thread.h"
#include "src/comm/window.h"
#include "src/exec/registrations.h"

namespace tutti::comm {

class DevicePlaces;
class MemoryTable;

/// Where the memory of an epoch that follows an edit comes from.
struct MemorySource {
  MemoryTable* before = nullptr;  // of this rank, in the epoch that it leaves; null: a newcomer
  const DevicePlaces* devices = nullptr;  // the same of the device's
  std::vector<WindowMemory> parts;        // a newcomer's, of the open windows by rising numbers
};

/// The memory that an epoch has from the one before.
struct KeptMemory {
  std::vector<Window*> windows;       // of this rank; the table's
  uint32_t registrations = 0;         // that calls may use
  std::set<uint64_t> device_handles;  // of registrations of device memory that all ranks have
  uint64_t last_device_handle = 0;    // of all ranks
};

class MemoryTable {
 public:
  /// `regions_before`: numbers of windows that count as taken. `progress_thread` may be null.
  MemoryTable(const Membership& membership, exec::Registrations& registrations, Failure& failure,
              ProgressThread* progress_thread, uint32_t regions_before)
      : membership_(membership),
        registrations_(registrations),
        failure_(failure),
        progress_thread_(progress_thread),
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
  /// Whether the call that begins may use its buffers as registered memory; then that stays until
  /// end_use(). A buffer of no bytes may lie anywhere.
  bool use(transport::ConstBuffer send, transport::ConstBuffer recv);
  /// Cheap if the call used none.
  void end_use() {
    if (is_in_use_) [[unlikely]]
      take_out_retired();
  }

  /// A list of what this rank has, for the members of the next epoch; or a newcomer. Any length.
  std::string list(const DevicePlaces& devices);
  static std::string list_of_newcomer();
  /// Collective, in an epoch that follows an edit, before anything else; `lists` by rank. The
  /// windows that any member has open are made anew over the same memory, with their numbers;
  /// members that have ended their part stay without one. Registrations that all members have stay
  /// usable; of others only the handle is left. A newcomer has none.
  Result<KeptMemory> take_over(const MemorySource& source, const std::vector<std::string>& lists,
                               transport::ChannelId region, const GatherTexts& gather,
                               const ShareDevices& share);
  /// Before the memory of a healthy communicator is taken over: what this rank has put to peers is
  /// there when this returns, but for peers that it is to do without. kTimeout: not by then.
  Status flush(const std::set<int>& without, uint64_t deadline_ns);
  /// The open window of this number; null: this rank has none.
  Window* numbered(uint32_t number);

  // Of a process of this host that an edit removes, though it may live.
  /// It begins nothing any more in this rank's windows; or may again.
  void bar(int peer, bool out) const;
  /// Names for people what of this rank's it may still write to; empty: nothing.
  std::string within_reach_of(int peer);

  /// Collective. The window is the table's. `region` names the communicator; its lane is this
  /// table's to choose. `keep_closed`: somebody may still have closed ones; else this frees them.
  Result<Window*> open(const WindowMemory& mine, transport::ChannelId region,
                       const GatherTexts& gather, const ShareDevices& share, bool keep_closed);
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
  void leave_progress_thread();

 private:
  struct RegisteredPart {
    uint32_t number = exec::Registration::kNone;
    WindowMemory mine;
  };
  struct Inventory;

  static std::string text_of(const WindowMemory& mine);
  Result<Window*> take_window(const MemorySource& source, size_t place, transport::ChannelId region,
                              const WindowSteps& steps);
  Result<uint32_t> take_registrations(MemoryTable& before, const std::set<uint64_t>& of_all,
                                      const GatherTexts& gather);
  Status take_registration(const RegisteredPart& old, const GatherTexts& gather);
  Result<exec::Registration> share(const WindowMemory& mine, const Status& fits,
                                   std::span<const std::string> texts, const GatherTexts& gather);
  Status map(exec::Registration& made, std::span<const std::string> texts) const;
  Status check_sizes(uint64_t bytes, std::span<const std::string> texts) const;
  Result<uint32_t> keep(exec::Registration made, const WindowMemory& mine);
  exec::Registration take_out(uint32_t number);
  void take_out_retired();
  void forget_closed();
  Status be_attended();
  Status close_until(Window* window, uint64_t deadline_ns);

  const Membership& membership_;
  exec::Registrations& registrations_;
  Failure& failure_;
  ProgressThread* const progress_thread_;
  diagnosis::PeerWatch* watch_ = nullptr;
  std::vector<std::unique_ptr<Window>> windows_;  // also closed ones, which a call may still be in
  uint32_t regions_;
  std::vector<transport::Link*> attended_;
  bool is_shut_ = false;
  bool is_in_use_ = false;  // registered memory; written under mutex_, by the thread in the call
  std::atomic<bool> has_registered_{false};  // written under mutex_
  Mutex mutex_;
  std::vector<RegisteredPart> registered_ TUTTI_GUARDED_BY(mutex_);  // for collectives
  // Handles whose memory an edit did not keep.
  std::vector<uint32_t> unused_ TUTTI_GUARDED_BY(mutex_);
  std::vector<uint32_t> retired_ TUTTI_GUARDED_BY(mutex_);  // the running call may use them
  std::vector<Window*> closed_ TUTTI_GUARDED_BY(mutex_);    // in windows_
};

}  // namespace tutti::comm
