#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::data {

/// A regular file in a tar archive, whose bytes lie in it as they are.
struct TarMember {
  std::string name;
  uint64_t offset = 0, size = 0;
};

/// The members of an archive (ustar, GNU or pax) in its order. A data Error for what is no archive, is compressed or truncated.
std::vector<TarMember> read_tar(const std::filesystem::path& path);

// A path may go through an archive: photos.tar/cat.jpg is the member cat.jpg of photos.tar. A Parquet file is an archive of the files that
// it holds (data/parquet.h).

/// The archive that a path goes through; the path itself where it goes through none.
std::filesystem::path file_behind(const std::filesystem::path& path);
bool is_file_there(const std::filesystem::path& path);
/// Reads all bytes; a data Error when the file or member is not there or cannot be read.
std::string read_file_bytes(const std::filesystem::path& path);

}  // namespace burnish::data
