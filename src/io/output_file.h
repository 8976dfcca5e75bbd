#pragma once
#include <filesystem>
#include <string_view>

namespace burnish::io {

/// Refuses a name for a file that is to be written when something else would be lost by it: a config Error of `room` unless `path` ends in
/// `ending` and what is there, if anything is, `is_such` a file as is written. A data Error when no file can be written there.
void check_output(const char* room, const std::filesystem::path& path, std::string_view ending,
                  bool (*is_such)(const std::filesystem::path& path));

}  // namespace burnish::io
