#include <cstdio>
#include <cstdlib>

#include "app/program.h"

int main(int argc, char** argv) {
  int code = burnish::app::run_program({argv + 1, argv + argc});
  // Taking down libtorch's tables takes as long as a third of loading them and frees nothing that the end of the process does not.
  std::fflush(nullptr);
  std::_Exit(code);
}
