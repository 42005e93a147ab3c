// `tutti trace analyse`: the recorders of all ranks together, and what is wrong with the job.
#pragma once

namespace tutti::cli {

int analyse_main(int argc, char** argv);

}  // namespace tutti::cli
