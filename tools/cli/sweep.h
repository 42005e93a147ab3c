// `tutti sweep`: which hosts of a job are slow at communicating, between two jobs.
#pragma once

namespace tutti::cli {

int sweep_main(int argc, char** argv);

}  // namespace tutti::cli
