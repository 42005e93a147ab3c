// Meeting by PMI2: srun --mpi=pmi2. The library is Slurm's or MPICH's.
//
// Its state is the process's: one PMI2_Init, which an MPI may have called before, and one
// PMI2_Finalize. Slurm's closes the descriptor of PMI_FD there, and a second PMI2_Init would write
// to whatever has that number then. So what is initialized here stays so until the process exits.
#include <array>
#include <memory>
#include <utility>

#include "src/bootstrap/launch/exchange_of_launcher.h"
#include "src/bootstrap/launch/library.h"

namespace tutti::bootstrap {
namespace {

constexpr int kSuccess = 0;
constexpr int kJobBytes = 1024, kValueBytes = 1024;
constexpr int kNobody = -1;  // PMI2_ID_NULL: the value may have been put by any rank

struct Pmi2Functions {
  int (*init)(int* spawned, int* ranks, int* rank, int* application);
  int (*initialized)();
  int (*finalize)();
  int (*job)(char* name, int bytes);
  int (*put)(const char* key, const char* value);
  int (*fence)();
  int (*get)(const char* job, int rank, const char* key, char* value, int bytes, int* length);
};

Result<Pmi2Functions> load() {
  const Result<Library> library = Library::open({"libpmi2.so.0", "libpmi2.so"});
  if (!library.ok()) return library.status();
  Pmi2Functions f{};
  const Library& from = library.value();
  const bool complete = from.find("PMI2_Init", f.init) &&
                        from.find("PMI2_Initialized", f.initialized) &&
                        from.find("PMI2_Finalize", f.finalize) &&
                        from.find("PMI2_Job_GetId", f.job) && from.find("PMI2_KVS_Put", f.put) &&
                        from.find("PMI2_KVS_Fence", f.fence) && from.find("PMI2_KVS_Get", f.get);
  if (!complete) return Status::unsupported("libpmi2 is not PMI2 as it should be");
  return f;
}

Status check(const char* call, int error) {
  if (error == kSuccess) return {};
  return Status::system_error(std::string(call) + " failed with " + std::to_string(error));
}

Status initialize(const Pmi2Functions& functions) {
  if (functions.initialized() != 0) return {};
  int spawned = 0, ranks = 0, rank = 0, application = 0;
  const int error = functions.init(&spawned, &ranks, &rank, &application);
  if (error != kSuccess) {
    return Status::unsupported("PMI2_Init failed with " + std::to_string(error));
  }
  at_exit([finalize = functions.finalize] { finalize(); });
  return {};
}

class Pmi2 final : public LauncherExchange {
 public:
  static Result<std::unique_ptr<Pmi2>> create() {
    const Result<Pmi2Functions> functions = load();
    if (!functions.ok()) return functions.status();
    if (Status status = initialize(functions.value()); !status.ok()) return status;
    std::unique_ptr<Pmi2> made(new Pmi2(functions.value()));
    const Status status =
        check("PMI2_Job_GetId", made->functions_.job(made->job_.data(), kJobBytes));
    if (!status.ok()) return status;
    return made;
  }

  Status put(const std::string& key, const std::string& value) override {
    return check("PMI2_KVS_Put", functions_.put(key.c_str(), value.c_str()));
  }
  Status fence() override { return check("PMI2_KVS_Fence", functions_.fence()); }
  Result<std::string> get(const std::string& key) override {
    std::array<char, kValueBytes> value{};
    int length = 0;
    const int error =
        functions_.get(job_.data(), kNobody, key.c_str(), value.data(), kValueBytes - 1, &length);
    if (Status status = check("PMI2_KVS_Get", error); !status.ok()) return status;
    return std::string(value.data());
  }

 private:
  explicit Pmi2(const Pmi2Functions& functions) : functions_(functions) {}

  const Pmi2Functions functions_;
  std::array<char, kJobBytes> job_{};
};

}  // namespace

Result<LaunchMeeting> meet_by_pmi2(const Start& start) {
  if (!start.variables.contains("PMI_FD")) return Status::unsupported("PMI_FD is not set");
  if (!start.launch.ok()) return Status::unsupported("PMI_RANK and PMI_SIZE are not set");
  const Launch& launch = start.launch.value();
  if (!launch.exchanges) return Status::unsupported("its ranks are not those of " + launch.how);
  Result<std::unique_ptr<Pmi2>> pmi2 = Pmi2::create();
  if (!pmi2.ok()) return pmi2.status();
  return meet_over(std::move(pmi2).value(), launch, start);
}

}  // namespace tutti::bootstrap
