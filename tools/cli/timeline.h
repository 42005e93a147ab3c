// `tutti timeline`: what a way to train in parallel would run, when, and with how much memory.
#pragma once

namespace tutti::cli {

int timeline_main(int argc, char** argv);

}  // namespace tutti::cli
