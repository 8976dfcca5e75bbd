#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::config {

/// A key of a config.toml, as text: for people to read and compare.
struct Setting {
  std::string group;  ///< the comment line above its block, "" without one
  std::string name;
  std::string value;  ///< the value as TOML writes it; a text without its quotes
  std::string doc;    ///< the comment behind it
};

/// Reads the keys of a TOML file in the order in which they stand; a data Error when it cannot be read.
std::vector<Setting> read_settings(const std::filesystem::path& path);

}  // namespace burnish::config
