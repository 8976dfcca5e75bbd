#include "data/file_hashes.h"

#include "data/archive_path.h"
#include "data/archived_files.h"
#include "data/frame_files.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace {

/// Of their content in their order, whatever they are called.
std::string hash_of_frames(const std::filesystem::path& folder) {
  io::Sha256 all;
  for (const auto& file : frame_files(folder)) all.update(io::file_hash(file));
  return all.hex();
}

}  // namespace

std::string FileHashes::hash(const std::filesystem::path& file) { return hash(std::vector<std::filesystem::path>{file}).front(); }

std::vector<std::string> FileHashes::hash(const std::vector<std::filesystem::path>& files) {
  return notes_.get(files, [](const auto& file) {
    if (io::is_folder(file)) return hash_of_frames(file);
    return file_behind(file) == file ? io::file_hash(file) : io::sha256(read_file_bytes(file));
  });
}

}  // namespace burnish::data
