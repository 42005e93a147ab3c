// `tutti sim`: a collective on a cluster that is not here, simulated.
#pragma once

namespace tutti::cli {

int sim_main(int argc, char** argv);

}  // namespace tutti::cli
