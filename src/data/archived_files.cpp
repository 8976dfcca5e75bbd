#include "data/archived_files.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/input_error.h"
#include "data/archive_path.h"
#include "data/tar.h"
#include "data/unpacked_parquet.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// The most bytes of a file that is read as a whole: more than the largest picture has without compression.
constexpr uintmax_t kMostBytes = uintmax_t{1} << 32;

/// Where the members of an archive lie.
struct TarIndex {
  fs::path file;  ///< the archive, or what a Parquet file was unpacked into
  std::map<std::string, TarMember, std::less<>> members = {};
};

/// Of an archive that was not changed since it was last asked for.
std::shared_ptr<const TarIndex> index_of(const fs::path& archive) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const TarIndex>> known;
  struct stat s {};
  stat(archive.c_str(), &s);
  auto key = fmt::format("{}|{}|{}.{:09}", archive.string(), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
  std::lock_guard lock(mutex);
  auto& index = known[key];
  if (!index) {
    auto read = std::make_shared<TarIndex>(TarIndex{is_parquet(archive) ? unpacked_parquet(archive) : archive});
    for (auto& member : read_tar(read->file))
      read->members.insert_or_assign(member.name, member);  // of two of one name the later one counts
    index = read;
  }
  return index;
}

/// A member, and the file that it lies in.
struct TarPlace {
  fs::path file;
  TarMember member;
};

/// Where the bytes lie that a path names; none where it goes through no archive, or that has no such member.
std::optional<TarPlace> place_of(const fs::path& path, const fs::path& archive) {
  if (archive == path) return std::nullopt;
  auto index = index_of(archive);
  auto found = index->members.find(path.lexically_relative(archive).string());
  return found == index->members.end() ? std::nullopt : std::optional(TarPlace{index->file, found->second});
}

}  // namespace

bool is_file_there(const fs::path& path) {
  auto archive = file_behind(path);
  return archive == path ? io::is_there(path) : place_of(path, archive).has_value();
}

std::string read_file_bytes(const fs::path& path) {
  auto place = place_of(path, file_behind(path));
  std::error_code failed;
  const auto size = place ? static_cast<uintmax_t>(place->member.size) : fs::file_size(path, failed);
  if (!failed && size > kMostBytes)
    data_error("data",
               "{} has {} GiB, and of pictures, and of clips in archives, {} GiB at most are read; make it smaller, or leave it out",
               path.string(), size >> 30, kMostBytes >> 30);
  if (!place) return io::read_text(path);
  return read_member(place->file, place->member);
}

}  // namespace burnish::data
