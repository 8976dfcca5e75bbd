#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/workspace.h"

namespace burnish::studio {

/// The small model and the pictures that come with the program, so that a first run needs no download: a folder whose demo.json names a
/// model that a processor alone trains in a minute, captioned pictures, and settings.
class Demo {
 public:
  /// `folder` may be empty, where nothing comes with the program.
  explicit Demo(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// {"model": the path that settings name, "title", "bytes", "settings", "pictures": how many}; null where nothing comes with the program.
  nlohmann::json describe() const;
  /// Makes a dataset of the pictures, and returns its name: "demo", or one like it where that name is taken by something else. A config
  /// Error where no pictures come with the program.
  std::string make_dataset(const Workspace& workspace) const;

 private:
  nlohmann::json read() const;

  std::filesystem::path folder_;
};

}  // namespace burnish::studio
