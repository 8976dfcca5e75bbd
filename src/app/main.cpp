#include <cstdio>
#include <cstdlib>

#include "app/failure.h"
#include "app/program.h"
#include "base/error.h"
#include "memory/failure.h"

namespace {

void before_libraries() { burnish::memory::explain_uncaught(burnish::app::kNoMemory, static_cast<int>(burnish::Exit::no_fit)); }

/// Libraries ask for memory while they are loaded, ahead of `main`; the loader calls this ahead of them.
[[gnu::section(".preinit_array"), gnu::used]] void (*const g_before_libraries)() = before_libraries;

}  // namespace

int main(int argc, char** argv) {
  int code = burnish::app::run_program({argv + 1, argv + argc});
  // Taking down libtorch's tables takes as long as a third of loading them and frees nothing that the end of the process does not.
  std::fflush(nullptr);
  std::_Exit(code);
}
