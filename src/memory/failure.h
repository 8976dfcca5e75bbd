#pragma once
#include <exception>

namespace burnish::memory {

/// Tells whether an exception says that memory could not be had, of the host or of a device.
bool is_out_of_memory(const std::exception& error);

/// Has the program end with `sentence` and `exit_code` where an exception that says that memory or a thread could not be had is caught by
/// nobody: one of a library that is just being loaded, or of a thread. Other exceptions end it as they would.
void explain_uncaught(const char* sentence, int exit_code);

/// Under a limit on address space (ulimit -v), ends the program with `sentence` and `exit_code` where a library reads from memory that it
/// asked for and was not given, instead of as a segmentation fault. Other faults, and faults without a limit, stay as they are.
void explain_faults_at_limit(const char* sentence, int exit_code);

}  // namespace burnish::memory
