// `tutti topo`: what a host or a cluster is made of.
#pragma once

namespace tutti::cli {

int topo_main(int argc, char** argv);

}  // namespace tutti::cli
