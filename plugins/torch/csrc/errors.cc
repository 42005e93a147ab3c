#include "errors.h"

namespace tutti_torch {

CallError::CallError(tuttiResult_t result, const std::string& text)
    : c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text),
      result(result) {}

std::string listed(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string last_sentence(tuttiComm_t comm) {
  const char* text = tuttiGetLastError(comm);
  return text == nullptr ? std::string() : std::string(text);
}

void check(tuttiResult_t result, const std::string& what, tuttiComm_t comm,
           std::chrono::milliseconds timeout) {
  if (result == tuttiSuccess) return;
  std::string text = "tutti: " + what + ": ";
  if (result == tuttiTimeout) {
    text += "timed out after " + std::to_string(timeout.count()) + " ms: ";
  }
  const std::string sentence = last_sentence(comm);
  text += sentence.empty() ? std::string(tuttiGetErrorString(result)) : sentence;
  throw CallError(result, text);
}

}  // namespace tutti_torch
