#include "io/output_file.h"

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

void check_output(const char* room, const std::filesystem::path& path, std::string_view ending,
                  bool (*is_such)(const std::filesystem::path& path)) {
  if (!path.filename().string().ends_with(ending) || path.filename().string().size() == ending.size())
    config_error(room, "the output {} must be the name of a {} file", path.string(), ending);
  if (is_there(path) && (is_folder(path) || !is_such(path)))
    config_error(room, "the output {} is there already, and was not written by this command; name another", path.string());
  AtomicFile probe(path);  // its end removes it
}

}  // namespace burnish::io
