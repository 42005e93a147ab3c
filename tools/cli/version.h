// `tutti version`: the version, and what this machine offers.
#pragma once

namespace tutti::cli {

int version_main(int argc, char** argv);

}  // namespace tutti::cli
