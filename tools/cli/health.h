// `tutti health`: watches the communicators of this host while they run.
#pragma once

namespace tutti::cli {

int health_main(int argc, char** argv);

}  // namespace tutti::cli
