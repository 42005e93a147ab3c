// Memory that collectives read and write without staging copies.
#include "communicator.h"
#include "failure.h"
#include "part.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// An allocation that is registered with a communicator for as long as both live. A communicator
/// that has ended has forgotten its registrations by itself.
class RegisteredMemory {
 public:
  RegisteredMemory(nb::object communicator, int64_t bytes)
      : owner_(communicator), comm_(nb::cast<Communicator&>(communicator)), bytes_(bytes) {
    if (bytes < 1)
      refuse("RegisteredMemory: bytes is " + std::to_string(bytes) + "; give 1 or more");
    const tuttiComm_t handle = comm_.handle();
    const auto size = static_cast<size_t>(bytes);
    expect_success(tuttiMemAlloc(&memory_, size), nullptr);
    tuttiResult_t result = tuttiSuccess;
    comm_.run([&] { result = tuttiCommRegister(handle, memory_, size, &registration_); });
    if (result != tuttiSuccess) tuttiMemFree(memory_);
    expect_success(result, handle);
  }

  ~RegisteredMemory() {
    nb::gil_scoped_release released;
    if (comm_.open()) tuttiCommDeregister(comm_.handle(), registration_);
    tuttiMemFree(memory_);
  }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  static nb::object bytes(nb::object self) {
    RegisteredMemory& inner = nb::cast<RegisteredMemory&>(self);
    const size_t shape[1] = {static_cast<size_t>(inner.bytes_)};
    return nb::cast(nb::ndarray<nb::numpy, uint8_t>(inner.memory_, 1, shape, self));
  }

 private:
  nb::object owner_;
  Communicator& comm_;
  int64_t bytes_;
  void* memory_ = nullptr;
  void* registration_ = nullptr;
};

}  // namespace

void add_registered(nb::module_& module) {
  nb::class_<RegisteredMemory>(module, "RegisteredMemory",
                               R"doc(Memory registered with a communicator.

Collectives whose buffers all lie in such memory run without staging copies.

Making it is collective over `comm`: every rank asks for as many `bytes`. It is filled with zeros,
and lives until its last array is gone.

>>> import numpy
>>> def main(comm):
...     memory = tutti.RegisteredMemory(comm, 64)
...     x = memory.bytes.view("float64")
...     x[:] = comm.rank + 1
...     return comm.all_reduce(x).sum().item()
>>> tutti.run(main, ranks=2)
[24.0, 24.0])doc")
      .def(nb::init<nb::object, int64_t>(), "comm"_a, "bytes"_a)
      .def_prop_ro("bytes", &RegisteredMemory::bytes,
                   "An array of uint8 that keeps it alive; view() gives it another type.");
}

}  // namespace tutti::python
