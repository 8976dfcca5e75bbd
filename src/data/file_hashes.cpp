#include "data/file_hashes.h"

#include "data/archive_path.h"
#include "data/archived_files.h"
#include "io/hash.h"

namespace burnish::data {

std::string FileHashes::hash(const std::filesystem::path& file) { return hash(std::vector<std::filesystem::path>{file}).front(); }

std::vector<std::string> FileHashes::hash(const std::vector<std::filesystem::path>& files) {
  return notes_.get(files,
                    [](const auto& file) { return file_behind(file) == file ? io::file_hash(file) : io::sha256(read_file_bytes(file)); });
}

}  // namespace burnish::data
