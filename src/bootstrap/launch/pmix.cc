// Meeting by PMIx: Open MPI's mpirun, prterun, srun --mpi=pmix. The ABI is that of PMIx 2 to 5
// (libpmix.so.2), written down here so that no header is needed.
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "src/bootstrap/launch/exchange_of_launcher.h"
#include "src/bootstrap/launch/library.h"

namespace tutti::bootstrap {
namespace {

struct PmixProcess {
  char name_space[256];
  uint32_t rank;
};
static_assert(sizeof(PmixProcess) == 260);

/// The library's union is 24 bytes; values that we hand over may be larger than needed.
struct PmixValue {
  uint16_t type;
  alignas(8) std::array<unsigned char, 56> data;
};

constexpr int kSuccess = 0;
constexpr uint16_t kString = 3, kUint32 = 14;
constexpr uint8_t kGlobal = 3;
constexpr uint32_t kEveryRank = 0xfffffffe;

struct PmixFunctions {
  int (*initialized)();
  int (*init)(PmixProcess*, void*, size_t);
  int (*finalize)(const void*, size_t);
  int (*put)(uint8_t, const char*, PmixValue*);
  int (*commit)();
  int (*fence)(const PmixProcess*, size_t, const void*, size_t);
  int (*get)(const PmixProcess*, const char*, const void*, size_t, PmixValue**);
  const char* (*error)(int);
};

Result<PmixFunctions> load() {
  const Result<Library> library = Library::open({"libpmix.so.2"});
  if (!library.ok()) return library.status();
  PmixFunctions f{};
  const Library& from = library.value();
  const bool complete = from.find("PMIx_Initialized", f.initialized) &&
                        from.find("PMIx_Init", f.init) && from.find("PMIx_Finalize", f.finalize) &&
                        from.find("PMIx_Put", f.put) && from.find("PMIx_Commit", f.commit) &&
                        from.find("PMIx_Fence", f.fence) && from.find("PMIx_Get", f.get) &&
                        from.find("PMIx_Error_string", f.error);
  if (!complete) return Status::unsupported("libpmix.so.2 is not PMIx as it should be");
  return f;
}

class Pmix final : public LauncherExchange {
 public:
  static Result<std::unique_ptr<Pmix>> create() {
    const Result<PmixFunctions> functions = load();
    if (!functions.ok()) return functions.status();
    const PmixFunctions& call = functions.value();
    PmixProcess self{};
    const bool first = call.initialized() == 0;
    int error = call.init(&self, nullptr, 0);
    if (error == kSuccess && first) {  // the library counts; one stays
      at_exit([finalize = call.finalize] { finalize(nullptr, 0); });
      error = call.init(&self, nullptr, 0);
    }
    if (error == kSuccess) return std::unique_ptr<Pmix>(new Pmix(call, self));
    return Status::unsupported(std::string("PMIx_Init: ") + call.error(error));
  }
  ~Pmix() override { functions_.finalize(nullptr, 0); }

  Result<Launch> launch() const {
    const Result<int> ranks = number("pmix.job.size");
    if (!ranks.ok()) return ranks.status();
    const Result<int> local = number("pmix.local.size");
    Launch launch;
    launch.how = "PMIx";
    launch.rank = static_cast<int>(self_.rank);
    launch.ranks = ranks.value();
    launch.one_host = local.ok() && local.value() == launch.ranks;
    launch.job = std::string("PMIx:") + self_.name_space;
    launch.named = true;
    launch.exchanges = true;
    return launch;
  }

  Status put(const std::string& key, const std::string& text) override {
    PmixValue value{};
    value.type = kString;
    const char* const bytes = text.c_str();
    std::memcpy(value.data.data(), &bytes, sizeof bytes);
    if (Status status = check("PMIx_Put", functions_.put(kGlobal, key.c_str(), &value));
        !status.ok()) {
      return status;
    }
    return check("PMIx_Commit", functions_.commit());
  }

  Status fence() override { return check("PMIx_Fence", functions_.fence(nullptr, 0, nullptr, 0)); }

  Result<std::string> get(const std::string& key) override {
    return read(key.c_str(), 0, kString, [](const unsigned char* data) {
      char* text = nullptr;
      std::memcpy(&text, data, sizeof text);
      std::string copy(text == nullptr ? "" : text);
      free(text);
      return copy;
    });
  }

 private:
  Pmix(const PmixFunctions& functions, const PmixProcess& self)
      : functions_(functions), self_(self) {}

  Status check(const char* call, int error) const {
    if (error == kSuccess) return {};
    return Status::system_error(std::string(call) + ": " + functions_.error(error));
  }

  /// The caller frees the values that the library returns, by malloc's free.
  template <class Convert>
  auto read(const char* key, uint32_t rank, uint16_t type, const Convert& convert) const
      -> Result<decltype(convert(nullptr))> {
    PmixProcess whose = self_;
    whose.rank = rank;
    PmixValue* value = nullptr;
    if (Status status = check(key, functions_.get(&whose, key, nullptr, 0, &value)); !status.ok()) {
      return status;
    }
    if (value == nullptr) return Status::system_error(std::string(key) + ": PMIx gave no value");
    if (value->type != type) {
      free(value);
      return Status::system_error(std::string(key) + ": PMIx gave a value of another type");
    }
    auto converted = convert(value->data.data());
    free(value);
    return converted;
  }

  Result<int> number(const char* key) const {
    return read(key, kEveryRank, kUint32, [](const unsigned char* data) {
      uint32_t value = 0;
      std::memcpy(&value, data, sizeof value);
      return static_cast<int>(value);
    });
  }

  const PmixFunctions functions_;
  const PmixProcess self_;
};

}  // namespace

Result<LaunchMeeting> meet_by_pmix(const Start& start) {
  if (!start.variables.contains("PMIX_NAMESPACE") || !start.variables.contains("PMIX_RANK")) {
    return Status::unsupported("PMIX_NAMESPACE and PMIX_RANK are not set");
  }
  if (start.launch.ok() && !start.launch.value().exchanges) {
    return Status::unsupported("its ranks are not those of " + start.launch.value().how);
  }
  Result<std::unique_ptr<Pmix>> pmix = Pmix::create();
  if (!pmix.ok()) return pmix.status();
  const Result<Launch> launch = start.launch.ok() ? start.launch : pmix.value()->launch();
  if (!launch.ok()) return launch.status();
  return meet_over(std::move(pmix).value(), launch.value(), start);
}

}  // namespace tutti::bootstrap
