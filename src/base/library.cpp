#include "base/library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace burnish {

Library::Library(const std::string& file) : handle_(dlopen(file.c_str(), RTLD_NOW)), problem_(handle_ == nullptr ? dlerror() : "") {}

Library::Found Library::find(const char* function) const {
  auto* address = is_open() ? dlsym(handle_, function) : nullptr;
  if (is_open() && address == nullptr) throw std::logic_error(std::string("a library has no ") + function);
  return {address};
}

std::filesystem::path companion(const std::string& name) {
  std::error_code no_proc;
  return std::filesystem::read_symlink("/proc/self/exe", no_proc).parent_path() / ("libburnish_" + name + ".so");
}

}  // namespace burnish
