// A process of a transfer queue, which a test may kill at any moment:
//
//   queue unit ADDRESS BUDGET            serves samples until its input ends; prints "ready"
//   queue produce CONTROLLER STEP SEED   puts all cells of a step, in an order of its own
//   queue consume CONTROLLER TASK SEED   claims, looks at the bytes, prints, acknowledges, prints
//
// A row's bytes follow from its name and field, so that whoever reads them knows what they must be.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>

#include "tests/queue/rows.h"
#include "tutti/runtime/transfer_queue.h"

namespace {

using namespace tutti::runtime;
using tutti::testing_support::bytes_of_cell;

void unit(const std::string& address, int64_t budget) {
  const StorageUnit unit(address, Bytes(budget));
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

void produce(const std::string& controller, int64_t step, unsigned seed) {
  QueueClient client(controller);
  std::mt19937 random(seed);
  std::vector<QueueClient::Put> puts;
  for (int64_t row = 0; row < tutti::testing_support::kRowsOfStep; ++row) {
    for (const char* field : {"prompt", "answer"}) {
      QueueClient::Put put;
      put.row = {step, row};
      put.field = field;
      put.form = "bytes";
      put.version = client.version();
      puts.push_back(put);
    }
  }
  std::shuffle(puts.begin(), puts.end(), random);
  for (const QueueClient::Put& put : puts) {
    const std::string bytes = bytes_of_cell(put.row, put.field);
    client.put_if_absent(put, std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
}

/// One line is one write: a process that is killed leaves whole lines.
void say(const char* what, const std::string& task, const QueueBatch& batch, size_t row) {
  const std::string line = std::string(what) + " " + task + " " +
                           std::to_string(batch.rows[row].step) + " " +
                           std::to_string(batch.rows[row].row) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::perror("write");
}

void consume(const std::string& controller, const std::string& task, unsigned seed) {
  QueueClient client(controller);
  std::mt19937 random(seed);
  while (true) {
    ClaimSpec spec;
    spec.rows = 1 + int64_t(random() % 6);
    spec.least = 1;
    spec.timeout = std::chrono::minutes(10);
    const QueueBatch batch = client.claim(task, spec);
    const QueueSamples samples = client.fetch(batch);
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      for (size_t f = 0; f < batch.fields.size(); ++f) {
        if (samples.cell(r, f) != bytes_of_cell(batch.rows[r], batch.fields[f])) {
          say("wrong", task, batch, r);
        }
      }
      say("read", task, batch, r);
    }
    usleep(unsigned(random() % 2000));  // so that some are killed with rows in hand
    client.ack(batch);
    for (size_t r = 0; r < batch.rows.size(); ++r) say("acked", task, batch, r);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 4 || argc == 5 ? argv[1] : "";
  try {
    if (role == "unit" && argc == 4) return unit(argv[2], std::atoll(argv[3])), 0;
    if (role == "produce" && argc == 5) {
      return produce(argv[2], std::atoll(argv[3]), unsigned(std::atoi(argv[4]))), 0;
    }
    if (role == "consume" && argc == 5) {
      return consume(argv[2], argv[3], unsigned(std::atoi(argv[4]))), 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "queue %s: %s\n", role.c_str(), error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: queue unit|produce|consume ADDRESS ...; see queue_main.cc\n");
  return 2;
}
