// Communicators and their calls.
#include "communicator.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "failure.h"
#include "on_stream.h"
#include "part.h"
#include "waiting.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// How the counts of a collective's buffers follow from one number n: a buffer has n elements, or n
/// for each rank; only the root has it, or all ranks.
struct Rule {
  const char* name;
  tuttiCollective_t collective;
  bool has_send, send_per_rank, send_at_root;
  bool has_recv, recv_per_rank, recv_at_root;
};

constexpr Rule kRules[] = {
    {"all_reduce", tuttiCollAllReduce, true, false, false, true, false, false},
    {"all_gather", tuttiCollAllGather, true, false, false, true, true, false},
    {"reduce_scatter", tuttiCollReduceScatter, true, true, false, true, false, false},
    {"broadcast", tuttiCollBroadcast, true, false, true, true, false, false},
    {"all_to_all", tuttiCollAllToAll, true, true, false, true, true, false},
    {"barrier", tuttiCollBarrier, false, false, false, false, false, false},
    {"reduce", tuttiCollReduce, true, false, false, true, false, true},
    {"gather", tuttiCollGather, true, false, false, true, true, true},
    {"scatter", tuttiCollScatter, true, true, true, true, false, false},
    {"all_gather_v", tuttiCollAllGatherV, true, false, false, true, false, false},
    {"reduce_scatter_v", tuttiCollReduceScatterV, true, false, false, true, false, false},
    {"all_to_all_v", tuttiCollAllToAllV, true, false, false, true, false, false},
    {"send", tuttiCollSend, true, false, false, false, false, false},
    {"recv", tuttiCollRecv, false, false, false, true, false, false},
};

struct NamedOperation {
  const char* name;
  tuttiRedOp_t op;
};
constexpr NamedOperation kOperations[] = {
    {"sum", tuttiSum}, {"prod", tuttiProd},      {"max", tuttiMax},      {"min", tuttiMin},
    {"avg", tuttiAvg}, {"bit_and", tuttiBitAnd}, {"bit_or", tuttiBitOr}, {"bit_xor", tuttiBitXor},
};

tuttiRedOp_t operation_named(const char* name, const char* call) {
  for (const NamedOperation& known : kOperations) {
    if (std::strcmp(known.name, name) == 0) return known.op;
  }
  refuse(std::string(call) + ": '" + name +
         "' is no reduction; op is sum, prod, max, min, avg, bit_and, bit_or or bit_xor");
}

/// (deterministic, algorithm or None, seconds or None, priority, levels that encode or None)
void read_options(nb::handle options, Call& call) {
  if (options.is_none()) return;
  call.has_options = true;
  call.options.deterministic = nb::cast<bool>(options[0]) ? 1 : 0;
  if (!options[1].is_none()) call.algorithm = nb::cast<std::string>(options[1]);
  if (!options[2].is_none()) {
    const double seconds = nb::cast<double>(options[2]);
    if (!(seconds > 0) || seconds > 1e9) refuse("timeout: pass a number of seconds above 0");
    call.options.timeout_ns = static_cast<uint64_t>(std::llround(seconds * 1e9));
  }
  call.options.priority = nb::cast<int>(options[3]);
  if (options[4].is_none()) return;
  call.wire = nb::cast<std::string>(options[4]);
  call.has_wire = true;
}

/// The four lists, or None for each, from that place of the tuple on.
void read_counts(const nb::tuple& what, size_t first, Call& call) {
  for (size_t i = 0; i < 4; ++i) {
    if (what[first + i].is_none()) continue;
    call.counts[i] = nb::cast<std::vector<size_t>>(what[first + i]);
  }
}

int64_t count_of(const Buffer& buffer, const Rule& rule, bool per_rank, int ranks) {
  if (!per_rank) return buffer.count;
  if (buffer.count % ranks != 0) {
    refuse(std::string(rule.name) + ": " + buffer.text() + " does not divide into " +
           std::to_string(ranks) + " equal parts, one for each rank");
  }
  return buffer.count / ranks;
}

/// The two buffers must have the same type and, by the rule, fit each other.
void read_buffers(const Rule& rule, nb::handle send, nb::handle recv, const Communicator& comm,
                  Call& call) {
  const bool root = call.call.root == comm.rank();
  const bool reads = rule.has_send && (!rule.send_at_root || root);
  const bool writes = rule.has_recv && (!rule.recv_at_root || root);
  if (reads) call.send = readable(send, rule.name, "send", Where::kStream);
  if (writes) call.recv = writable(recv, rule.name, "recv", Where::kStream);
  if (!reads && !writes) return;
  const Buffer& one = reads ? call.send : call.recv;
  call.call.send = call.send.data;
  call.call.recv = call.recv.data;
  call.call.type = one.type;
  const int64_t count =
      count_of(one, rule, reads ? rule.send_per_rank : rule.recv_per_rank, comm.ranks());
  call.call.count = static_cast<size_t>(count);
  if (!reads || !writes) return;
  if (call.send.type != call.recv.type) {
    refuse(std::string(rule.name) + ": send is " + call.send.text() + " and recv is " +
           call.recv.text() + "; both need one type");
  }
  if (!call.counts[0].empty() || !call.counts[2].empty()) return;
  if (count_of(call.recv, rule, rule.recv_per_rank, comm.ranks()) == count) return;
  const int64_t wanted = rule.recv_per_rank ? count * comm.ranks() : count;
  refuse(std::string(rule.name) + ": send is " + call.send.text() + ", so recv needs " +
         std::to_string(wanted) + " elements, and is " + call.recv.text());
}

size_t sum_of(const std::vector<size_t>& counts) {
  size_t sum = 0;
  for (size_t count : counts) sum += count;
  return sum;
}

/// Where the blocks of a buffer end, for offsets that may leave gaps.
size_t end_of(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  if (offsets.empty()) return sum_of(counts);
  size_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) end = std::max(end, offsets[i] + counts[i]);
  }
  return end;
}

void expect_room(const Rule& rule, const char* argument, const Buffer& buffer, size_t needed) {
  if (static_cast<size_t>(buffer.count) >= needed) return;
  refuse(std::string(rule.name) + ": " + argument + " is " + buffer.text() +
         ", and the counts need " + std::to_string(needed) + " elements");
}

void check_counts(const Rule& rule, const Communicator& comm, Call& call) {
  const size_t ranks = static_cast<size_t>(comm.ranks());
  for (const std::vector<size_t>& counts : call.counts) {
    if (counts.empty() || counts.size() == ranks) continue;
    refuse(std::string(rule.name) + ": a list has " + std::to_string(counts.size()) +
           " numbers; pass one for each of the " + std::to_string(ranks) + " ranks");
  }
  if (!call.counts[0].empty()) {
    expect_room(rule, "send", call.send, end_of(call.counts[0], call.counts[1]));
  }
  if (!call.counts[2].empty()) {
    expect_room(rule, "recv", call.recv, end_of(call.counts[2], call.counts[3]));
  }
  const size_t own = static_cast<size_t>(comm.rank());
  if (rule.collective == tuttiCollReduceScatterV) {
    expect_room(rule, "recv", call.recv, call.counts[0][own]);
  }
  if (rule.collective == tuttiCollAllGatherV && call.call.count != call.counts[2][own]) {
    refuse("all_gather_v: send is " + call.send.text() + ", and counts says " +
           std::to_string(call.counts[2][own]) + " for this rank");
  }
  call.point_to_counts();
}

/// Runs a call now, or hands it to the group or to the background. None, or the request.
nb::object dispatch(nb::object self, std::unique_ptr<Call> call, bool wait) {
  Communicator& comm = nb::cast<Communicator&>(self);
  if (Group* group = current_group(); group != nullptr) {
    if (!wait) refuse("a call of a group completes with the group; leave wait out");
    collect(*group, std::move(self), std::move(call));
    return nb::none();
  }
  const tuttiStream_t stream = current_stream();
  if (!wait) {
    if (stream.kind != tuttiStreamBlocking) {
      refuse("a call on a stream returns when it is in the stream; leave wait out");
    }
    auto request = std::make_unique<Request>(std::move(self), std::move(call));
    request->submit();
    return nb::cast(request.release(), nb::rv_policy::take_ownership);
  }
  const tuttiComm_t handle = comm.handle();
  comm.run([&call, handle, stream] {
    const tuttiResult_t result =
        tuttiSubmit(&call->call, handle, stream, call->options_or_null(), nullptr);
    expect_success(result, handle);
  });
  return nb::none();
}

nb::object submit(nb::object self, nb::tuple what, nb::handle send, nb::handle recv, bool wait) {
  Communicator& comm = nb::cast<Communicator&>(self);
  comm.handle();
  const Rule& rule = kRules[nb::cast<int>(what[0])];
  auto call = std::make_unique<Call>();
  call->call.collective = rule.collective;
  call->call.op = operation_named(nb::cast<const char*>(what[1]), rule.name);
  call->call.root = nb::cast<int>(what[2]);
  read_options(what[3], *call);
  if (what.size() > 4) read_counts(what, 4, *call);
  read_buffers(rule, send, recv, comm, *call);
  if (what.size() > 4) check_counts(rule, comm, *call);
  return dispatch(std::move(self), std::move(call), wait);
}

/// For callers that have pointers already, such as a backend of PyTorch: (collective, send, recv,
/// count, type, op, root), all of them numbers.
nb::object submit_raw(nb::object self, nb::tuple what, nb::handle options, bool wait) {
  auto call = std::make_unique<Call>();
  call->call.collective = kRules[nb::cast<int>(what[0])].collective;
  call->call.send = reinterpret_cast<const void*>(nb::cast<uintptr_t>(what[1]));
  call->call.recv = reinterpret_cast<void*>(nb::cast<uintptr_t>(what[2]));
  call->call.count = nb::cast<size_t>(what[3]);
  call->call.type = static_cast<tuttiDataType_t>(nb::cast<int>(what[4]));
  call->call.op = static_cast<tuttiRedOp_t>(nb::cast<int>(what[5]));
  call->call.root = nb::cast<int>(what[6]);
  if (what.size() > 7) {
    read_counts(what, 7, *call);
    call->point_to_counts();
  }
  read_options(options, *call);
  return dispatch(std::move(self), std::move(call), wait);
}

std::string explain(Communicator& self, const char* collective, size_t count, const char* type) {
  const tuttiComm_t comm = self.handle();
  const tuttiDataType_t element = type_named(type);
  std::string text(1 << 14, '\0');
  size_t needed = 0;
  self.run([&] {
    tuttiResult_t result =
        tuttiExplain(comm, collective, count, element, text.data(), text.size(), &needed);
    if (needed > text.size()) {
      text.resize(needed);
      result = tuttiExplain(comm, collective, count, element, text.data(), text.size(), &needed);
    }
    expect_success(result, comm);
  });
  text.resize(std::strlen(text.c_str()));
  return text;
}

/// Calls on a stream of a device fail behind the call that put them there.
void check(const Communicator& self) {
  const tuttiComm_t comm = self.handle();
  tuttiResult_t state = tuttiSuccess;
  expect_success(tuttiCommGetAsyncError(comm, &state), comm);
  expect_success(state, comm);
}

uintptr_t init_rank(int ranks, int rank, nb::bytes id, const std::string& name, double timeout) {
  const tuttiUniqueId key = id_of(id);
  const tuttiConfig_t config = config_of(name, timeout);
  return make(
      [&](tuttiComm_t* made) { return tuttiCommInitRankConfig(made, ranks, key, rank, &config); });
}

uintptr_t init_launched(const std::string& name, double timeout) {
  const tuttiConfig_t config = config_of(name, timeout);
  return make([&](tuttiComm_t* made) { return tuttiCommInitLaunched(made, &config); });
}

uintptr_t split(Communicator& self, int color, int key) {
  const tuttiComm_t comm = self.handle();
  return make([&](tuttiComm_t* made) { return tuttiCommSplit(comm, color, key, made, nullptr); });
}

uintptr_t shrink(Communicator& self, const std::vector<int>& excluded, bool abort) {
  const tuttiComm_t comm = self.handle();
  return make([&](tuttiComm_t* made) {
    return tuttiCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), made, nullptr,
                           abort ? TUTTI_SHRINK_ABORT : TUTTI_SHRINK_DEFAULT);
  });
}

}  // namespace

tuttiConfig_t config_of(const std::string& name, double timeout) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.name = name.empty() ? nullptr : name.c_str();
  if (timeout > 0) config.timeout_ns = static_cast<uint64_t>(timeout * 1e9);
  return config;
}

uintptr_t make(const std::function<tuttiResult_t(tuttiComm_t* made)>& call) {
  tuttiComm_t made = nullptr;
  run_waiting([&] { expect_success(call(&made), nullptr); },
              [&made] {
                nb::gil_scoped_release released;
                const tuttiComm_t under_way = *const_cast<tuttiComm_t volatile*>(&made);
                if (under_way != nullptr) tuttiCommAbort(under_way);
              });
  return reinterpret_cast<uintptr_t>(made);
}

tuttiUniqueId id_of(const nb::bytes& id) {
  tuttiUniqueId key;
  if (id.size() != sizeof(key.internal)) {
    refuse("an id has 128 bytes, those of unique_id(), and this one " + std::to_string(id.size()));
  }
  std::memcpy(key.internal, id.c_str(), sizeof(key.internal));
  return key;
}

Communicator::Communicator(uintptr_t handle, bool owned)
    : comm_(reinterpret_cast<tuttiComm_t>(handle)), owned_(owned) {
  if (comm_ == nullptr) refuse("there is no communicator at address 0");
  read_place();
}

void Communicator::read_place() {
  if (comm_ == nullptr) return;
  expect_success(tuttiCommUserRank(comm_, &rank_), comm_);
  expect_success(tuttiCommCount(comm_, &ranks_), comm_);
}

Communicator::~Communicator() {
  if (comm_ == nullptr || !owned_) return;
  nb::gil_scoped_release released;
  tuttiCommDestroy(comm_);
  forget();
}

tuttiComm_t Communicator::handle() const {
  if (comm_ == nullptr) refuse("this communicator is closed; make another one");
  return comm_;
}

tuttiStream_t Communicator::background() {
  if (background_.kind == tuttiStreamBlocking) {
    expect_success(tuttiStreamCreate(&background_), comm_);
  }
  return background_;
}

void Communicator::forget() {
  comm_ = nullptr;
  if (background_.kind != tuttiStreamBlocking) tuttiStreamDestroy(background_);
  background_ = tuttiBlocking();
}

void Communicator::close() {
  if (comm_ == nullptr) return;
  const tuttiComm_t comm = comm_;
  if (!owned_) {
    comm_ = nullptr;
    return;
  }
  run_waiting([comm] { expect_success(tuttiCommDestroy(comm), comm); },
              [comm] {
                nb::gil_scoped_release released;
                tuttiCommAbort(comm);
              });
  forget();
}

void Communicator::abort() {
  if (comm_ == nullptr || !owned_) return;
  nb::gil_scoped_release released;
  const tuttiComm_t comm = comm_;
  comm_ = nullptr;
  tuttiCommAbort(comm);
  forget();  // ends the stream, which would wait for calls that have not been aborted
}

void Communicator::run(const std::function<void()>& work) {
  run_waiting(work, [this] { abort(); });
}

Request::Request(nb::object communicator, std::unique_ptr<Call> call)
    : owner_(std::move(communicator)),
      communicator_(nb::cast<Communicator&>(owner_)),
      call_(std::move(call)) {}

Request::~Request() {
  if (request_ == nullptr) return;
  nb::gil_scoped_release released;
  tuttiRequestWait(request_);
}

void Request::submit() {
  const tuttiComm_t comm = communicator_.handle();
  const tuttiStream_t stream = communicator_.background();
  const tuttiResult_t result =
      tuttiSubmit(&call_->call, comm, stream, call_->options_or_null(), &request_);
  expect_success(result, comm);
}

bool Request::done() {
  if (request_ == nullptr) return true;
  int done = 0;
  const tuttiResult_t result = tuttiRequestTest(request_, &done);
  if (done == 0) expect_success(result, nullptr);
  return done != 0;
}

void Request::finish(tuttiResult_t result) {
  request_ = nullptr;
  call_.reset();
  expect_success(result, communicator_.open() ? communicator_.handle() : nullptr);
}

bool Request::wait(double seconds) {
  constexpr double kBetweenSignals = 0.05;
  while (request_ != nullptr) {
    const double turn = seconds < 0 ? kBetweenSignals : std::min(seconds, kBetweenSignals);
    tuttiResult_t result = tuttiSuccess;
    {
      nb::gil_scoped_release released;
      result = tuttiRequestWaitFor(request_, static_cast<uint64_t>(turn * 1e9));
    }
    if (result != tuttiInProgress) {
      finish(result);
      break;
    }
    if (hears_signals() && PyErr_CheckSignals() != 0) {
      nb::python_error raised;
      communicator_.abort();
      throw raised;
    }
    if (seconds >= 0 && (seconds -= turn) <= 0) return false;
  }
  return true;
}

namespace {

void add_request(nb::module_& module) {
  nb::class_<Request>(module, "Request",
                      "A call in the background, from a call with wait=False. Its buffers stay "
                      "alive until it has completed; do not write to them before.")
      .def(
          "wait",
          [](Request& self, std::optional<double> timeout) {
            return self.wait(timeout.has_value() ? std::max(*timeout, 0.0) : -1);
          },
          "timeout"_a = nb::none(),
          "Waits for the call and raises its error. With a timeout in seconds it returns False if "
          "the call has not completed by then; the call goes on.")
      .def("done", &Request::done, "Whether the call has completed.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__", [](Request& self, nb::object, nb::object, nb::object) { self.wait(-1); },
          "kind"_a.none(), "failure"_a.none(), "traceback"_a.none());
}

}  // namespace

void add_communicator(nb::module_& module) {
  module.def("_init_rank", &init_rank);
  module.def("_init_launched", &init_launched);
  module.def("_bytes_of", [](const char* type) { return bytes_of(type_named(type)); });
  nb::class_<Communicator> communicator(module, "CommunicatorBase", nb::is_weak_referenceable(),
                                        "What tutti.Communicator is made of; use that one.");
  communicator.def(nb::init<uintptr_t, bool>())
      .def_prop_ro("rank", &Communicator::rank, "This rank's number, from 0.")
      .def_prop_ro("ranks", &Communicator::ranks, "How many ranks there are.")
      .def_prop_ro("is_open", &Communicator::open, "False after close() or abort().")
      .def_prop_ro(
          "handle",
          [](const Communicator& self) { return reinterpret_cast<uintptr_t>(self.handle()); },
          "The address of the tuttiComm_t, for code that calls the C API.")
      .def("close", &Communicator::close,
           "Waits for this rank's calls and for the other ranks to be done with it, and ends the "
           "communicator. Closing again does nothing.")
      .def("abort", &Communicator::abort,
           "Ends the communicator at once: calls under way fail on every rank. Any thread may call "
           "it.")
      .def("check", &check,
           "Raises the error with which the communicator has failed, if it has: of a call on a "
           "stream of a device, which had returned before. Ask when the stream has been "
           "synchronized, and before its results are used. It waits for nothing.")
      .def("explain", &explain, "collective"_a, "count"_a, "dtype"_a = "float32",
           "Which algorithm a call would run, at what predicted cost, and why the others lost, as "
           "text.")
      .def("_submit", &submit, "what"_a, "send"_a.none(), "recv"_a.none(), "wait"_a)
      .def("_submit_raw", &submit_raw, "what"_a, "options"_a.none(), "wait"_a)
      .def("_split", &split)
      .def("_shrink", &shrink);
  add_edits(module, communicator);
  add_suspension(communicator);
  add_request(module);
}

}  // namespace tutti::python
