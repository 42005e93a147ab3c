// Errors of the runtime layer: one exception type for every header in this folder.
//
// Errors: a function that refuses its input throws before anything has happened: nothing is sent,
//         allocated or changed. The sentence names the offending values and what to change. An
//         error of the library below becomes kCommunication with that library's own sentence.
#pragma once

#include <stdexcept>
#include <string>

#include "tutti/tutti.h"

#define TUTTI_RUNTIME_API __attribute__((visibility("default")))

namespace tutti::runtime {

enum class ErrorKind {
  kInvalidInput,   // an argument cannot be right
  kInfeasible,     // the arguments are right, and there is no solution; the sentence says why
  kRanksDiffer,    // ranks planned different things; found before anything is sent
  kCommunication,  // a call of tutti.h failed; result() says how
};

class TUTTI_RUNTIME_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& sentence, tuttiResult_t result = tuttiInvalidArgument)
      : std::runtime_error(sentence), kind_(kind), result_(result) {}

  ErrorKind kind() const { return kind_; }
  tuttiResult_t result() const { return result_; }

 private:
  ErrorKind kind_;
  tuttiResult_t result_;
};

}  // namespace tutti::runtime
