// `tutti perf --plot`: hands the JSON file to plot_results.py.
#pragma once

#include <string>

namespace tutti::perf {

/// Errors: PerfError that says what is missing. Called before anything is measured, so that nobody
/// waits for a picture that cannot be drawn.
void check_plotter();

/// Errors: PerfError.
void plot_results(const std::string& json_file, const std::string& picture_file);

}  // namespace tutti::perf
