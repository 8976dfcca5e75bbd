#include "train/subject/checks.h"

#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace burnish::train {

namespace fs = std::filesystem;

void check_finite(const config::Fields& fields) {
  for (const auto& field : fields.list()) {
    const auto* slot = std::get_if<double*>(&field.slot);
    if (slot && !std::isfinite(**slot)) config_error("train", "{} must be a finite number, not {}", field.name, **slot);
  }
}

void check_at_least(const char* name, double value, double least) {
  if (value < least) config_error("train", "{} must be at least {}, not {}", name, least, value);
}

void check_at_most(const char* name, int64_t value, int64_t most) {
  if (value > most) config_error("train", "{} must be at most {}, not {}", name, most, value);
}

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
