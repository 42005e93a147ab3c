// A stand-in for libpmi2 over files of one folder: just enough for ranks on one host. As Slurm's,
// it serves between one PMI2_Init and one PMI2_Finalize in a process's life.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kError = 14;

enum class State { kNew, kOpen, kFinalized } state = State::kNew;
int fences = 0;

bool open() { return state == State::kOpen; }

std::string path(const std::string& name) { return std::string(getenv("FAKE_PMI2")) + "/" + name; }
int number(const char* name) { return std::atoi(getenv(name)); }

}  // namespace

extern "C" {

int PMI2_Init(int* spawned, int* size, int* rank, int* application) {
  if (state != State::kNew) return kError;
  state = State::kOpen;
  *spawned = *application = 0;
  *size = number("PMI_SIZE");
  *rank = number("PMI_RANK");
  return 0;
}

int PMI2_Initialized() { return state == State::kNew ? 0 : 1; }

int PMI2_Finalize() {
  if (!open()) return kError;
  state = State::kFinalized;
  std::ofstream(path("finalized-" + std::to_string(number("PMI_RANK")))) << "by the exit";
  return 0;
}

int PMI2_Job_GetId(char* job, int bytes) {
  if (!open()) return kError;
  std::snprintf(job, static_cast<size_t>(bytes), "%s", getenv("PMI_JOBID"));
  return 0;
}

int PMI2_KVS_Put(const char* key, const char* value) {
  if (!open()) return kError;
  std::ofstream(path(key)) << value;
  return 0;
}

int PMI2_KVS_Fence() {
  if (!open()) return kError;
  const std::string stem = "fence-" + std::to_string(fences++) + "-";
  std::ofstream(path(stem + getenv("PMI_RANK"))) << "here";
  for (int rank = 0; rank < number("PMI_SIZE"); ++rank) {
    while (access(path(stem + std::to_string(rank)).c_str(), F_OK) != 0) usleep(1000);
  }
  return 0;
}

int PMI2_KVS_Get(const char*, int, const char* key, char* value, int bytes, int* length) {
  std::ifstream file(path(key));
  std::string text;
  if (!std::getline(file, text) || text.size() >= static_cast<size_t>(bytes)) return kError;
  std::memcpy(value, text.c_str(), text.size() + 1);
  *length = static_cast<int>(text.size());
  return 0;
}

}  // extern "C"
