#pragma once

namespace burnish::memory {

/// Gives the meta device the operators that libtorch has none for there and that training steps run; once in a program.
void register_meta_ops();

}  // namespace burnish::memory
