// The requests of clients to the controller and the storage units of a transfer queue. A request is
// how long it may wait in milliseconds, one of these numbers, and its arguments; an answer is 0 and
// the results, or 1 more than an ErrorKind and a sentence.
#pragma once

#include <cstdint>
#include <string>

#include "src/runtime/queue/words.h"
#include "tutti/runtime/transfer_queue.h"

namespace tutti::runtime::queue {

enum class Ask : int64_t {
  // Of the controller.
  kHello,     // -> ring, rows, fields, units
  kReserve,   // row, field, form -> token, oldest step
  kCommit,    // token, version, weight
  kWithdraw,  // token
  kAddTask,   // name, staleness, fields
  kClaim,     // task, ClaimSpec -> batch
  kAck,       // batch
  kRenew,     // batch
  kRelease,   // batch
  kDrain,     // step
  kClear,     // step -> rows not read
  kPublish,   // version
  kVersion,   // at least -> version
  kCounts,    // task -> counts
  kExpired,   // task, step -> rows
  kForm,      // step, field -> form
  // Of a storage unit.
  kStore,   // row, field, token, oldest step; the bytes to the end
  kLoad,    // row, field, token -> the bytes to the end
  kForget,  // step
};

inline WordWriter ask(std::chrono::milliseconds wait, Ask what) {
  WordWriter request;
  request.number(wait.count()).number(int64_t(what));
  return request;
}

inline void write_texts(WordWriter& to, const std::vector<std::string>& texts) {
  to.number(std::ssize(texts));
  for (const std::string& text : texts) to.text(text);
}
inline std::vector<std::string> read_texts(WordReader& from) {
  std::vector<std::string> texts;
  for (int64_t left = from.count(); left > 0; --left) texts.emplace_back(from.text());
  return texts;
}

inline void write_rows(WordWriter& to, const std::vector<QueueRow>& rows) {
  to.number(std::ssize(rows));
  for (const QueueRow& row : rows) to.number(row.step).number(row.row);
}
inline QueueRow read_row(WordReader& from) {
  QueueRow row;
  row.step = from.number();
  row.row = from.number();
  return row;
}
inline std::vector<QueueRow> read_rows(WordReader& from) {
  std::vector<QueueRow> rows;
  for (int64_t left = from.count(); left > 0; --left) rows.push_back(read_row(from));
  return rows;
}

inline void write_numbers(WordWriter& to, const std::vector<int64_t>& numbers) {
  to.number(std::ssize(numbers));
  for (const int64_t number : numbers) to.number(number);
}
inline std::vector<int64_t> read_numbers(WordReader& from) {
  std::vector<int64_t> numbers;
  for (int64_t left = from.count(); left > 0; --left) numbers.push_back(from.number());
  return numbers;
}

}  // namespace tutti::runtime::queue
