// `tutti trace dump`: the flight recorders of running processes.
#pragma once

namespace tutti::cli {

int trace_main(int argc, char** argv);

}  // namespace tutti::cli
