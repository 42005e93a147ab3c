// The one error type of Tutti: a code for programs and a sentence for people.
//
// Errors: nothing here fails. Threads: a Status is a value; copy it freely, share it never.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {

enum class Code : int {
  kOk = 0,
  kInvalidArgument,  // one argument is wrong by itself: a null pointer, an unknown type
  kInvalidUsage,     // every argument is fine, but not here and now: destroyed twice
  kSystemError,      // the operating system refused: out of memory, no such file
  kInternalError,    // a promise Tutti makes to itself is broken
  kRemoteError,      // another rank failed, died, or answered nonsense
  kTimeout,          // a deadline passed
  kUnsupported,      // legal, but not something this build or machine can do
  kInProgress,       // not finished, ask again
};

/// OK, or a code with a message that names what failed and what to do about it.
/// Success costs one null pointer.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : detail_(std::make_shared<const Detail>(Detail{code, std::move(message)})) {
    assert(code != Code::kOk);
  }

  bool ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::kOk; }
  std::string_view message() const {
    return detail_ ? std::string_view(detail_->message) : std::string_view("ok");
  }

  static Status invalid_argument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
  static Status invalid_usage(std::string m) { return {Code::kInvalidUsage, std::move(m)}; }
  static Status system_error(std::string m) { return {Code::kSystemError, std::move(m)}; }
  static Status internal_error(std::string m) { return {Code::kInternalError, std::move(m)}; }
  static Status remote_error(std::string m) { return {Code::kRemoteError, std::move(m)}; }
  static Status timeout(std::string m) { return {Code::kTimeout, std::move(m)}; }
  static Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }

 private:
  struct Detail {
    Code code;
    std::string message;
  };
  // Shared: a failed communicator hands out one error often.
  std::shared_ptr<const Detail> detail_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(runtime/explicit)
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return std::move(*value_);
  }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace tutti
