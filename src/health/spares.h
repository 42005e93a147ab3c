// How many spares a large job should have: closed forms, and a simulation of failures and repairs
// to hold against them (Sparing Strategies, MLSys 2026; its formulas were not published, these are
// the first-order ones).
//
// A job has zones of blocks of trays. A block works while all but its spare trays do, a zone while
// as many blocks work as it needs, and the job runs while all zones do. Trays fail and are repaired
// independently, with exponential times. Spares run as the others do and fail as they do; `restart`
// has what it takes to bring one in.
//
// Threads: pure. Units: hours for failures and repairs, seconds for checkpoints and restarts.
// Errors: kInvalidArgument names the number that cannot be.
#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace tutti::health {

struct SpareModel {
  uint32_t zones = 1;
  uint32_t blocks = 1;          // of a zone, that the job needs
  uint32_t spare_blocks = 0;    // of a zone, beside them
  uint32_t trays = 1;           // of a block, with its spare ones
  uint32_t spare_trays = 0;     // of a block's trays, that it can do without
  double failure_hours = 5000;  // of a tray, mean time between failures
  double repair_hours = 24;
  double checkpoint_s = 60;
  double detect_s = 60;
  double restart_s = 240;
  double interval_s = 0;  // between checkpoints; 0: Young's
};

struct SparePrediction {
  double tray = 0;  // probabilities of working
  double block = 0;
  double zone = 0;
  double running = 0;         // of all zones
  double failures_per_h = 0;  // of trays that the job uses
  double interval_s = 0;      // between checkpoints
  double effective = 0;       // share of the time in which training goes on
  double used = 0;            // share of all trays that train
  double goodput = 0;         // effective * used
};

Status check(const SpareModel& model);
Result<SparePrediction> predict(const SpareModel& model);

/// Probability that of n, which each fail with probability q, at most k have failed.
double at_most_failed(uint32_t n, uint32_t k, double q);
/// Seconds between checkpoints that waste the least: Young's, and Daly's with higher orders.
double young_interval_s(double failure_s, double checkpoint_s);
double daly_interval_s(double failure_s, double checkpoint_s);

struct SpareSimulation {
  double block = 0;    // share of the time, of one block
  double running = 0;  // share of the time in which all zones work
  uint64_t failures = 0;
};
/// Until `failures` trays have failed.
Result<SpareSimulation> simulate_spares(const SpareModel& model, uint64_t seed, uint64_t failures);

/// The numbers of spares, up to these, with the most goodput.
Result<SpareModel> best_spares(const SpareModel& model, uint32_t most_blocks, uint32_t most_trays);

}  // namespace tutti::health
