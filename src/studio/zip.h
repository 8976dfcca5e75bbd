#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::studio {

/// Holds what came out of an archive.
struct Unpacked {
  int64_t num_files = 0;
  std::vector<std::string> passed_over = {};  ///< members that are no pictures, clips or captions, and links
};

/// Unpacks the pictures, clips and captions of a zip archive into a dataset, whatever folders they lie in: all of them, or none. What
/// belongs together keeps one name, which nothing in the dataset has. `name` is what the archive is called. A config Error for an archive
/// that is damaged, encrypted, of too many members, or of members that are too large, packed too well to be pictures, or of one name; a
/// data Error where the disk has no room for them.
Unpacked unpack(const std::filesystem::path& zip, const std::string& name, const std::filesystem::path& dataset);

}  // namespace burnish::studio
