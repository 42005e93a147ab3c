// `tutti spares`: how many spares a large job should have.
#pragma once

namespace tutti::cli {

int spares_main(int argc, char** argv);

}  // namespace tutti::cli
