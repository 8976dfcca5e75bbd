#include "train/subject/output_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/input_error.h"

namespace burnish::train {

namespace fs = std::filesystem;

void make_output_folder(const fs::path& folder) {
  std::error_code made, ignored;
  fs::create_directories(folder, made);
  bool is_folder = fs::is_directory(folder, ignored);
  if (!is_folder && fs::exists(folder, ignored)) data_error("train", "the output folder {} is a file; name a folder", folder.string());
  if (is_folder && ::access(folder.c_str(), W_OK) == 0) return;
  data_error("train", "cannot write in the output folder {}: {}; name another with --output_path", folder.string(),
             is_folder ? std::strerror(errno) : made.message());
}

}  // namespace burnish::train
