// `tutti plan`: where which parallelism of a training job goes on a cluster.
#pragma once

namespace tutti::cli {

int plan_main(int argc, char** argv);

}  // namespace tutti::cli
