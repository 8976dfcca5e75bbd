#pragma once

namespace burnish::memory {

/// Lets the C library keep what a step frees for the next step, which asks for such sizes again; otherwise it gives freed memory back and
/// the system clears those pages anew in every step. To be called at the start of a program.
void reuse_freed_memory();

/// Gives the memory that was freed back to the system. The C library keeps what lies between blocks that are still in use, and after a
/// model was loaded or unloaded that is much.
void trim_heap();

}  // namespace burnish::memory
