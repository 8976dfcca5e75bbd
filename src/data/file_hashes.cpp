#include "data/file_hashes.h"

#include "io/hash.h"

namespace burnish::data {

std::string FileHashes::hash(const std::filesystem::path& file) { return hash(std::vector<std::filesystem::path>{file}).front(); }

std::vector<std::string> FileHashes::hash(const std::vector<std::filesystem::path>& files) { return notes_.get(files, io::file_hash); }

}  // namespace burnish::data
