#pragma once

namespace burnish::memory {

/// Gives the memory that was freed back to the system. The C library keeps what lies between blocks that are still in use, and after a
/// model was loaded or unloaded that is much.
void trim_heap();

}  // namespace burnish::memory
