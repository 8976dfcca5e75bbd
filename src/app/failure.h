#pragma once
#include <exception>
#include <string>

#include "base/error.h"

namespace burnish::app {

/// Holds what the program ends with when an exception ends it.
struct Failure {
  std::string text;      ///< what is printed: "[room] sentence", a line for each thing that is wrong with options
  std::string sentence;  ///< without the room
  Exit code;
};
Failure failure_of(const std::exception& error);

/// The line when no memory is left.
inline constexpr const char* kNoMemory =
    "[app] out of memory; use a smaller batch_size or use_gradient_checkpointing, or raise the limit (ulimit -v)";

}  // namespace burnish::app
