#pragma once
#include <filesystem>

// A path may go through an archive: photos.tar/cat.jpg is the member cat.jpg of photos.tar. A Parquet file is an archive of the files that
// it holds (data/parquet.h).
namespace burnish::data {

/// Whether a path is that of a Parquet file, by the ending of its name.
bool is_parquet(const std::filesystem::path& path);

/// The archive that a path goes through; the path itself where it goes through none.
std::filesystem::path file_behind(const std::filesystem::path& path);

}  // namespace burnish::data
