#pragma once
#include <string>
#include <vector>

namespace burnish::app {

/// Runs the program with its arguments (without the program's name); the exit code. Errors are printed.
int run_program(const std::vector<std::string>& arguments);

}  // namespace burnish::app
