// The findings of an analysis for people: lines of text, and a page with the matrix of delays.
//
// Threads: pure; equal findings give equal bytes. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "src/health/analysis.h"

namespace tutti::health {

/// A line for each verdict, its evidence below it where `evidence`.
std::string text_report(const std::vector<CommunicatorHealth>& all, bool evidence);

/// One page without scripts or links: verdicts, evidence, and the matrix as a picture, the slowest
/// cell the darkest.
std::string html_report(const std::vector<CommunicatorHealth>& all);

}  // namespace tutti::health
