// Python's end, as far as C++ has to know of it. From then on a thread that asks for the
// interpreter's lock is ended where it stands, by an exception that no catch (...) may keep (until
// Python 3.14, which lets it sleep): a call that fails then would end the process by SIGABRT
// instead of letting it end.
//
// Threads: any. Errors: none.
#pragma once

namespace tutti_torch {

/// Whether the interpreter ends; set once, when the module is loaded. Without it none ever does.
void set_end_of_interpreter(bool (*ends)());

/// The calling thread would not get the interpreter's lock: it is not the one that ends it.
bool is_shut_out_of_interpreter();

/// Every wait that Python calls does this before it returns. A thread that is shut out sleeps until
/// the process is over.
void return_to_interpreter();

}  // namespace tutti_torch
