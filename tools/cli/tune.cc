#include "tools/cli/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/select/model_file.h"
#include "tools/cli/arguments.h"
#include "tools/cli/tune_multicast.h"
#include "tools/cli/tune_nccl.h"

namespace tutti::cli {
namespace {

using namespace drivers::cuda;  // NOLINT(build/namespaces)

constexpr char kUsage[] =
    "usage: tutti tune [--out FILE] [--repeats N]\n"
    "Measures what copies, waits, writes and functions of the host cost in a stream of device 0,\n"
    "and copies from device 1 where there is one, and writes a model for TUTTI_TUNING\n"
    "(docs/tuning.md); with two devices or more, also what calls by NCCL take among all of them,\n"
    "where it is found (TUTTI_NCCL). Nothing else should use the devices meanwhile. Nobody asks "
    "whether they\n"
    "are joined by NVLink: their copies count as a direct link's. Where all devices have "
    "multicast,\n"
    "it is measured, too. Other kernels keep an H100's numbers.\n";

constexpr size_t kLong = size_t{32} << 20, kShort = 1024;
constexpr size_t kWords = 8;  // of a group
constexpr double kNsPerUs = 1e3, kMb = 1e6;

struct Term {
  std::string name;
  double value = 0;
  std::string what;
};

template <class Value>
Value must(Result<Value> result) {
  if (!result.ok()) throw std::runtime_error(std::string(result.status().message()));
  return std::move(result).value();
}
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

/// One board, whose context is current.
class Board {
 public:
  Board(const Cuda& cuda, int repeats)
      : cuda_(cuda),
        repeats_(repeats),
        context_(must(PrimaryContext::retain(cuda, 0))),
        scope_(cuda, context_.get()),
        stream_(must(CudaStream::create(cuda))),
        side_(must(CudaStream::create(cuda))),
        event_(must(CudaEvent::create(cuda))),
        memory_(must(DeviceMemory::allocate(cuda, 0, 2 * kLong))),
        words_(must(PinnedMemory::allocate(cuda, 4096))) {
    std::fill_n(static_cast<volatile uint64_t*>(words_.data()), 512, 0);
  }

  std::vector<Term> measure() {
    const CopyBatch one = copies(1, kShort), two = copies(2, kShort), nine = copies(9, kShort);
    const MemoryOps waits = operations(true), writes = operations(false);
    const auto put = [this](auto list) {
      return [this, list]() mutable { must(list.submit(cuda_, stream_.get())); };
    };
    const double few = enqueue_us(put(two)), many = enqueue_us(put(nine));
    const double each = std::max(0.0, (many - few) / 7);
    std::vector<Term> terms = {
        {"copy_call_us", enqueue_us(put(one)), "of the host: a copy by a call of its own"},
        {"list_call_us", std::max(0.0, few - 2 * each), "of the host: a list of copies"},
        {"listed_copy_us", each, "of the host: each copy of a list"},
        {"group_call_us", enqueue_us(put(waits)), "of the host: a group of 8 waits"},
        {"event_us", enqueue_us([this] { go_behind(); }), "of the host: an event and its wait"},
        {"wait_us", device_us(put(waits)) / kWords, "of the device: a wait that is satisfied"},
        {"write_us", device_us(put(writes)) / kWords, "of the device: a write"},
        {"copy_us", device_us(put(one)), "of the device: a copy of 1 KiB"},
        {"host_function_us", device_us([this] { call_host(); }), "of the device: a host function"},
        {"hand_over_us", hand_over_us(), "a store by the host until the stream's write is back"},
        {"local_us_per_mb", long_copy_us(memory_.address() + kLong), "a copy within the device"}};
    if (const auto other = copy_from_other_us()) {
      terms.push_back({"link_us_per_mb", *other, "a copy from device 1"});
    }
    return terms;
  }

 private:
  CopyBatch copies(size_t count, size_t bytes) const {
    CopyBatch list;
    for (size_t i = 0; i < count; ++i) {
      list.add(memory_.address() + i * bytes, memory_.address() + kLong + i * bytes, bytes);
    }
    return list;
  }

  MemoryOps operations(bool wait) const {
    MemoryOps list;
    for (size_t i = 0; i < kWords; ++i) {
      const CUdeviceptr word = words_.address() + 64 * i;
      wait ? list.wait_at_least_64(word, 0) : list.write_64(word, 0);
    }
    return list;
  }

  void go_behind() {
    must(event_.record(stream_.get()));
    must(event_.make_wait(side_.get()));
  }
  void call_host() {
    must(cuda_.check(cuda_.call.cuLaunchHostFunc(
                         stream_.get(), [](void*) {}, nullptr),
                     "cuLaunchHostFunc"));
  }

  double median(const std::function<double()>& once) const {
    std::vector<double> found;
    for (int i = 0; i < repeats_ + 1; ++i) found.push_back(once());
    found.erase(found.begin());  // to warm up
    std::nth_element(found.begin(), found.begin() + repeats_ / 2, found.end());
    return found[static_cast<size_t>(repeats_ / 2)];
  }

  /// Of each of some in a row, until the last call has returned.
  double enqueue_us(const std::function<void()>& put) const {
    constexpr int kCalls = 20;
    return median([&] {
      const uint64_t begin = monotonic_ns();
      for (int i = 0; i < kCalls; ++i) put();
      const uint64_t end = monotonic_ns();
      must(stream_.synchronize());
      return static_cast<double>(end - begin) / kNsPerUs / kCalls;
    });
  }

  /// Of each of some in a row that a stream has been held up before: the host takes no part.
  double device_us(const std::function<void()>& put) const {
    constexpr int kCalls = 50;
    const auto run_us = [&](int calls) {
      hold();
      for (int i = 0; i < calls; ++i) put();
      const uint64_t begin = monotonic_ns();
      let_go();
      must(stream_.synchronize());
      return static_cast<double>(monotonic_ns() - begin) / kNsPerUs;
    };
    return median([&] { return std::max(0.0, (run_us(kCalls) - run_us(1)) / (kCalls - 1)); });
  }

  volatile uint64_t& word(size_t number) const {
    return static_cast<volatile uint64_t*>(words_.data())[number];
  }
  void hold() const {
    word(kHeld) = 0;
    MemoryOps wait;
    wait.wait_at_least_64(words_.address() + 8 * kHeld, 1);
    must(wait.submit(cuda_, stream_.get()));
  }
  void let_go() const { word(kHeld) = 1; }

  double hand_over_us() const {
    return median([&] {
      hold();
      word(kBack) = 0;
      MemoryOps write;
      write.write_64(words_.address() + 8 * kBack, 1);
      must(write.submit(cuda_, stream_.get()));
      const uint64_t begin = monotonic_ns();
      let_go();
      while (word(kBack) == 0) std::this_thread::yield();
      return static_cast<double>(monotonic_ns() - begin) / kNsPerUs;
    });
  }

  double long_copy_us(CUdeviceptr source) const {
    CopyBatch list;
    list.add(memory_.address(), source, kLong);
    return device_us([&] { must(list.submit(cuda_, stream_.get())); }) / (kLong / kMb);
  }

  /// None: there is no other device, or this one does not reach it.
  std::optional<double> copy_from_other_us() const {
    CUdevice other = 0;
    if (cuda_.devices() < 2 || cuda_.call.cuDeviceGet(&other, 1) != kSuccess) return std::nullopt;
    if (!reaches(cuda_, context_.device(), other).ok()) return std::nullopt;
    if (!reaches(cuda_, context_.device(), other).value()) return std::nullopt;
    const DeviceMemory theirs = must(DeviceMemory::allocate(cuda_, other, kLong));
    must(theirs.let_reach(context_.device()));
    return long_copy_us(theirs.address());
  }

  static constexpr size_t kHeld = 128, kBack = 256;  // words

  const Cuda& cuda_;
  const int repeats_;
  const PrimaryContext context_;
  const ContextScope scope_;
  const CudaStream stream_, side_;
  const CudaEvent event_;
  const DeviceMemory memory_;
  const PinnedMemory words_;
};

std::string text_of(const select::VendorTimes& times) {
  std::string calls;
  for (const select::VendorCall& call : times.calls) {
    calls += fmt::format("{}{{\"bytes\": {}, \"ns\": {:.5g}}}", calls.empty() ? "" : ", ",
                         call.bytes, call.ns);
  }
  return fmt::format("{{\"collective\": \"{}\", \"ranks\": {}, \"calls\": [{}]}}", times.collective,
                     times.ranks, calls);
}

std::string text_of(const std::string& name, const std::vector<Term>& terms,
                    const std::vector<select::VendorTimes>& nccl) {
  std::string text =
      fmt::format("{{\"tutti_model\": 1,\n \"devices\": {{\"name\": \"{}\", \"terms\": [", name);
  for (const Term& term : terms) {
    const bool first = &term == &terms.front();
    text += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"value\": {:.4g}, \"source\": \"measured\", \"what\": \"{}\"}}",
        first ? "" : ",", term.name, term.value, term.what);
  }
  text += "\n ]}";
  for (const select::VendorTimes& times : nccl) {
    text += (&times == &nccl.front() ? ",\n \"nccl\": [\n  " : ",\n  ") + text_of(times);
  }
  return text + (nccl.empty() ? "}\n" : "\n ]}\n");
}

/// Behind the others, where all devices have multicast; else the reason is said.
void add_multicast(std::vector<Term>& terms, int repeats) {
  const Result<double> us = measure_multicast(repeats);
  if (us.ok()) {
    terms.push_back({"multicast_us_per_mb", us.value(), "folds by the switch, by all devices"});
    return;
  }
  std::fprintf(stderr, "tutti tune: multicast is not measured, and keeps an H100's number: %s\n",
               std::string(us.status().message()).c_str());
}

/// Empty where it is not there, which is said.
std::vector<select::VendorTimes> measured_nccl(int repeats) {
  const Result<Config> config = Config::from_environment(process_environment());
  Result<std::vector<select::VendorTimes>> times =
      measure_nccl(config.ok() ? config.value().nccl_library : "", repeats);
  if (times.ok()) return std::move(times).value();
  std::fprintf(stderr, "tutti tune: NCCL is not measured: %s\n",
               std::string(times.status().message()).c_str());
  return {};
}

int tune(const std::string& out, int repeats) {
  const Result<Cuda>& cuda = find();
  if (!cuda.ok()) {
    std::fprintf(stderr, "tutti tune: %s\n", std::string(cuda.status().message()).c_str());
    return 77;
  }
  std::string name = must(DeviceFacts::read(cuda.value(), 0)).name;
  std::erase_if(name, [](char c) { return c == '"' || c == '\\'; });
  std::vector<Term> terms = Board(cuda.value(), repeats).measure();
  add_multicast(terms, repeats);
  const std::string text = text_of(name, terms, measured_nccl(repeats));
  std::FILE* const file = out.empty() ? stdout : std::fopen(out.c_str(), "w");
  if (file == nullptr || std::fputs(text.c_str(), file) < 0 ||
      (file != stdout && std::fclose(file) != 0)) {
    std::fprintf(stderr, "tutti tune: %s cannot be written\n", out.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int tune_main(int argc, char** argv) {
  std::string out;
  int repeats = 9;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (asks_for_help(option)) return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    const bool is_number =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (option == "--out" && !value.empty()) {
      out = value;
    } else if (option == "--repeats" && is_number && !value.empty() && value.size() < 5) {
      repeats = std::max(1, std::stoi(value));
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  try {
    return tune(out, repeats);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "tutti tune: %s\n", error.what());
    return 1;
  }
}

}  // namespace tutti::cli
