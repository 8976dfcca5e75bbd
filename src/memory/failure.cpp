#include "memory/failure.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

namespace burnish::memory {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // oneDNN has none either: what is asked of it here it can do, unless it finds no room for its code or its scratch.
  if (std::string_view(error.what()).find("could not create a primitive") != std::string_view::npos) return true;
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return false;
  if (dynamic_cast<const c10::OutOfMemoryError*>(torch_error) != nullptr) return true;
  // libtorch has no type for an allocation on the host that fails, only words.
  return std::string_view(torch_error->what_without_backtrace()).find("can't allocate memory") != std::string_view::npos;
}

}  // namespace burnish::memory
