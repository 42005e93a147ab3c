#include "on_stream.h"

#include <vector>

#include "failure.h"
#include "part.h"

#include <nanobind/nanobind.h>

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// The streams of the blocks that this thread is in, the innermost last.
std::vector<tuttiStream_t>& streams() {
  thread_local std::vector<tuttiStream_t> streams;  // tidy: allow mutable (blocks are a thread's)
  return streams;
}

class OnStream {
 public:
  explicit OnStream(uintptr_t stream) : stream_(tuttiStreamCuda(reinterpret_cast<void*>(stream))) {}

  void enter() { streams().push_back(stream_); }
  void leave() {
    if (streams().empty()) refuse("on_stream: this thread is in no such block");
    streams().pop_back();
  }

 private:
  tuttiStream_t stream_;
};

}  // namespace

tuttiStream_t current_stream() { return streams().empty() ? tuttiBlocking() : streams().back(); }

OnStreamScope::OnStreamScope(tuttiStream_t stream) { streams().push_back(stream); }
OnStreamScope::~OnStreamScope() { streams().pop_back(); }

void add_on_stream(nb::module_& module) {
  nb::class_<OnStream>(module, "on_stream",
                       R"doc(Within it, this thread's calls go on a stream of CUDA.

`stream` is its handle as a number, torch.cuda.current_stream().cuda_stream say; 0 is the legacy
default stream. Arrays may then be of the stream's device. Collectives, all_reduce_together() and
Exchange.run() return when the work is in the stream, and arrays must stay as they are until the
stream has passed it. What else takes arrays takes those of the host. The communicator's device is
the one that was current in the thread that made it. A call that fails on its way, because a rank
dies say, lets its stream go on, with results that mean nothing: Communicator.check() raises its
error.

    with tutti.on_stream(torch.cuda.current_stream().cuda_stream):
        comm.all_reduce(gradients)
    torch.cuda.current_stream().synchronize()
    comm.check())doc")
      .def(nb::init<uintptr_t>(), "stream"_a)
      .def("__enter__",
           [](nb::object self) {
             nb::cast<OnStream&>(self).enter();
             return self;
           })
      .def(
          "__exit__", [](OnStream& self, nb::object, nb::object, nb::object) { self.leave(); },
          "kind"_a.none(), "failure"_a.none(), "traceback"_a.none());
}

}  // namespace tutti::python
