#pragma once
#include <exception>

namespace burnish::memory {

/// Whether an exception says that memory could not be had, of the host or of a device.
bool is_out_of_memory(const std::exception& error);

}  // namespace burnish::memory
