// Activations on a disk: plans, and the cache for which tutti.offload makes hooks of PyTorch.
#include <memory>

#include "failure.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/offload.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

/// A Python object that may be let go in any thread.
std::shared_ptr<const void> kept(nb::object object) {
  auto* held = new nb::object(std::move(object));
  return {held, [](const void* memory) {
            const nb::gil_scoped_acquire python;
            delete static_cast<const nb::object*>(memory);
          }};
}

/// The cache; calls wait for the disk without the interpreter's lock, so that nobody who has it
/// waits for the cache.
class Cache {
 public:
  explicit Cache(const OffloadSpec& spec) : cache_(std::make_unique<OffloadCache>(spec)) {}
  ~Cache() {
    const nb::gil_scoped_release go_on;
    cache_.reset();
  }

  int64_t pack(int64_t storage, uintptr_t data, int64_t bytes, nb::object owner) {
    OffloadMemory memory;
    // An address by number, as torch gives it.
    memory.data = reinterpret_cast<const void*>(data);  // NOLINT(performance-no-int-to-ptr)
    memory.bytes = Bytes(bytes);
    memory.hold = kept(std::move(owner));
    memory.version = [hold = memory.hold.get()] {
      const nb::gil_scoped_acquire python;
      return nb::cast<int64_t>(static_cast<const nb::object*>(hold)->attr("_version"));
    };
    const nb::gil_scoped_release go_on;
    return cache_->pack(storage, memory);
  }
  /// The bytes as an array that keeps them alive.
  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> unpack(int64_t handle) {
    OffloadMemory memory;
    {
      const nb::gil_scoped_release go_on;
      memory = cache_->unpack(handle);
    }
    auto* hold = new std::shared_ptr<const void>(memory.hold);
    const nb::capsule owner(
        hold, [](void* held) noexcept { delete static_cast<std::shared_ptr<const void>*>(held); });
    return {const_cast<void*>(memory.data), {size_t(memory.bytes.value)}, owner};
  }
  void drop(int64_t handle) {
    const nb::gil_scoped_release go_on;
    cache_->drop(handle);
  }
  OffloadCounters counters() {
    const nb::gil_scoped_release go_on;
    return cache_->counters();
  }
  const char* io() const { return cache_->io(); }

 private:
  std::unique_ptr<OffloadCache> cache_;
};

void add_plans(nb::module_& module) {
  record<OffloadItem>(module, "OffloadItem", "A storage that a step saves.",
                      field("bytes", &OffloadItem::bytes, "of it"),
                      field("forward", &OffloadItem::forward, "ns until it is saved"),
                      field("backward", &OffloadItem::backward, "ns behind its use"));
  record<OffloadPlan>(module, "OffloadPlan", "How many of a step's storages go to a disk.",
                      field("offloaded", &OffloadPlan::offloaded, "the first so many"),
                      field("step", &OffloadPlan::step, "ns, predicted"),
                      field("without", &OffloadPlan::without, "ns, without a disk"),
                      field("peak", &OffloadPlan::peak, "bytes held at a time"),
                      field("written", &OffloadPlan::written, "bytes"));
  module.def(
      "plan_offload",
      [](const std::vector<OffloadItem>& items, double write, double read, Bytes budget,
         double slack) {
        return plan_offload(items, {write, read}, budget, slack);
      },
      "items"_a, "write"_a, "read"_a, "budget"_a, "slack"_a = 0.02,
      "The most storages that a disk takes for `slack` of the step's time (SSDTrain). Rates are "
      "bytes a second.\n\n"
      ">>> layers = [tutti.OffloadItem(bytes=1000, forward=1000, backward=2000)] * 10\n"
      ">>> tutti.plan_offload(layers, write=1e9, read=1e9, budget=10000).peak\n3000");
  record<OffloadCounters>(module, "OffloadCounters", "What an offloading cache has done.",
                          field("packed", &OffloadCounters::packed, "tensors"),
                          field("writes", &OffloadCounters::writes, "of storages"),
                          field("reads", &OffloadCounters::reads, "of storages"),
                          field("forwarded", &OffloadCounters::forwarded, "used while written"),
                          field("kept", &OffloadCounters::kept, "stayed in memory by the plan"),
                          field("written", &OffloadCounters::written, "bytes"),
                          field("read", &OffloadCounters::read, "bytes"),
                          field("held", &OffloadCounters::held, "bytes in memory, now"),
                          field("peak", &OffloadCounters::peak, "the most ever held"),
                          field("planned", &OffloadCounters::planned, "storages; -1: all"));
}

}  // namespace

void add_offload(nb::module_& module) {
  add_plans(module);
  nb::class_<Cache>(module, "_OffloadCache")
      .def("__init__",
           [](Cache* self, const std::string& folder, Bytes budget, double write, double read,
              int threads, bool io_uring, double slack) {
             OffloadSpec spec;
             spec.folder = folder;
             spec.budget = budget;
             spec.limit = {write, read};
             spec.threads = threads;
             spec.io_uring = io_uring;
             spec.slack = slack;
             new (self) Cache(spec);
           })
      .def("pack", &Cache::pack)
      .def("unpack", &Cache::unpack)
      .def("drop", &Cache::drop)
      .def_prop_ro("counters", &Cache::counters)
      .def_prop_ro("io", &Cache::io);
}

}  // namespace tutti::python
