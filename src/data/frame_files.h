#pragma once
#include <filesystem>
#include <vector>

namespace burnish::data {

/// Tells by its ending whether a file is a picture.
bool is_picture_name(const std::filesystem::path& path);

/// The pictures of a folder in the order of the numbers in their names: frame_2.png is before frame_10.png. Hidden files and folders in it
/// are left out.
std::vector<std::filesystem::path> frame_files(const std::filesystem::path& folder);

}  // namespace burnish::data
