#pragma once
#include <filesystem>
#include <string>

// Files by paths that may go through an archive (data/archive_path.h).
namespace burnish::data {

bool is_file_there(const std::filesystem::path& path);
/// Reads all bytes; a data Error when the file or member is not there or cannot be read.
std::string read_file_bytes(const std::filesystem::path& path);

}  // namespace burnish::data
