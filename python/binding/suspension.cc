// Communicators that give their device memory back for a while.
#include <nanobind/nanobind.h>

#include <cstddef>

#include "communicator.h"
#include "failure.h"

namespace tutti::python {

namespace nb = nanobind;

namespace {

void suspend(Communicator& self) {
  const tuttiComm_t comm = self.handle();
  self.run([comm] { expect_success(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEMORY), comm); });
}

void resume(Communicator& self) {
  const tuttiComm_t comm = self.handle();
  self.run([comm] { expect_success(tuttiCommResume(comm), comm); });
}

size_t device_memory(const Communicator& self) {
  size_t bytes = 0;
  expect_success(tuttiCommGetDeviceMemory(self.handle(), &bytes, nullptr), self.handle());
  return bytes;
}

bool is_suspended(const Communicator& self) {
  size_t bytes = 0;
  int suspended = 0;
  expect_success(tuttiCommGetDeviceMemory(self.handle(), &bytes, &suspended), self.handle());
  return suspended != 0;
}

}  // namespace

void add_suspension(nb::class_<Communicator>& communicator) {
  communicator
      .def("suspend", &suspend,
           "Gives the device memory that the communicator has for its calls back, until resume(). "
           "All ranks call it when their calls are over. Meanwhile calls raise an error whose "
           "result is invalid_usage; close(), abort() and questions are allowed.")
      .def("resume", &resume,
           "Takes the memory of suspend() again. All ranks call it. Where a rank finds none, it "
           "raises an error whose result is system_error on all, which stay suspended.")
      .def_prop_ro("device_memory", &device_memory,
                   "Bytes of device memory that suspend() gives back on this rank.")
      .def_prop_ro("is_suspended", &is_suspended, "True between suspend() and resume().");
}

}  // namespace tutti::python
