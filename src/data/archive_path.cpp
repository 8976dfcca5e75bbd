#include "data/archive_path.h"

#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

bool is_parquet(const fs::path& path) { return path.extension() == ".parquet"; }

fs::path file_behind(const fs::path& path) {
  if (io::is_there(path)) return path;
  for (auto parent = path.parent_path(); parent.has_relative_path(); parent = parent.parent_path()) {
    if (!io::is_there(parent)) continue;
    return (parent.extension() == ".tar" || is_parquet(parent)) && !io::is_folder(parent) ? parent : path;
  }
  return path;
}

}  // namespace burnish::data
