#include "studio/zip.h"

#include <fmt/core.h>
#include <minizip/unzip.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "base/input_error.h"
#include "base/text.h"
#include "data/folder_contents.h"
#include "io/files.h"
#include "studio/arrival.h"
#include "studio/datasets.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostMembers = 200'000;
constexpr uint64_t kMostOfAMember = uint64_t{4} << 30;
constexpr uint64_t kMostRatio = 100;                   // of unpacked to packed bytes: pictures hardly shrink, and captions to a third
constexpr uint64_t kFreeOfRatio = uint64_t{64} << 20;  // bytes that may be packed in any way
constexpr uint64_t kMostOfAName = 4096;
constexpr uint64_t kEncrypted = 1;  // a flag of a member

struct Member {
  unz64_file_pos at = {};
  std::string name;  ///< with the folders that it lies in
  uint64_t bytes = 0;
};

/// An archive that is open.
class Archive {
 public:
  Archive(const fs::path& path, std::string name) : name_(std::move(name)), file_(unzOpen64(path.c_str())) {
    if (file_ == nullptr) config_error("studio", "{} is no zip archive, or is damaged", name_);
  }
  ~Archive() { unzClose(file_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  /// All members but folders; links are `passed_over`.
  std::vector<Member> members(std::vector<std::string>& passed_over) {
    unz_global_info64 all{};
    check(unzGetGlobalInfo64(file_, &all));
    if (all.number_entry > kMostMembers)
      config_error("studio", "{} has {} members, and {} at most are unpacked", name_, all.number_entry, kMostMembers);
    std::vector<Member> found;
    for (uint64_t i = 0; i < all.number_entry; ++i) {
      check(i == 0 ? unzGoToFirstFile(file_) : unzGoToNextFile(file_));
      unz_file_info64 info{};
      check(unzGetCurrentFileInfo64(file_, &info, nullptr, 0, nullptr, 0, nullptr, 0));
      if (info.size_filename > kMostOfAName) config_error("studio", "a name in {} is {} bytes long", name_, info.size_filename);
      Member member{.name = std::string(info.size_filename, '\0'), .bytes = info.uncompressed_size};
      check(unzGetCurrentFileInfo64(file_, &info, member.name.data(), info.size_filename, nullptr, 0, nullptr, 0));
      check(unzGetFilePos64(file_, &member.at));
      std::ranges::replace(member.name, '\\', '/');
      if (!is_utf8(member.name))
        std::ranges::replace_if(
            member.name, [](unsigned char c) { return c >= 0x80; }, '_');
      if (member.name.ends_with('/')) continue;
      if ((info.flag & kEncrypted) != 0) config_error("studio", "{} is encrypted; unpack it, and add its files", name_);
      if (S_ISLNK(info.external_fa >> 16)) passed_over.push_back(member.name);
      else found.push_back(std::move(member));
    }
    return found;
  }

  void write(const Member& member, const fs::path& to) {
    auto at = member.at;
    check(unzGoToFilePos64(file_, &at));
    check(unzOpenCurrentFile(file_));
    io::AtomicFile out(to);
    std::string piece(1 << 18, '\0');
    uint64_t total = 0;
    while (true) {
      const int count = unzReadCurrentFile(file_, piece.data(), static_cast<unsigned>(piece.size()));
      if (count < 0) check(count);
      if (count <= 0) break;
      total += static_cast<uint64_t>(count);
      if (total > member.bytes) config_error("studio", "{} in {} is larger than it says", member.name, name_);
      out.write(piece.data(), static_cast<size_t>(count));
    }
    check(unzCloseCurrentFile(file_));  // compares the checksum
    out.commit();
  }

 private:
  void check(int result) const {
    if (result != UNZ_OK) config_error("studio", "the archive {} is damaged ({})", name_, result);
  }

  std::string name_;
  unzFile file_;
};

/// Whether it lies in a folder that systems hide, or is hidden itself.
bool is_hidden(const std::string& name) { return name.starts_with('.') || name.find("/.") != name.npos || name.starts_with("__MACOSX/"); }

/// What a picture, its caption and its mask have in common: their folder and name.
std::string key_of(const fs::path& path) {
  auto stem = path.stem().string();
  auto without = [&](std::string_view ending) {
    if (stem.size() > ending.size() && stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  };
  for (auto ending : data::kMaskNames) without(ending);
  without(data::kConditionName);
  return (path.parent_path() / stem).string();
}

/// The names that members get in the dataset.
std::map<size_t, std::string> names_in(const fs::path& dataset, const std::vector<Member>& members) {
  std::set<std::string> taken;
  std::error_code error;
  for (fs::directory_iterator entry(dataset, error), end; entry != end; entry.increment(error))
    taken.insert(key_of(entry->path().filename()));
  std::map<std::string, std::string> by_key;
  std::map<size_t, std::string> names;
  for (size_t i = 0; i < members.size(); ++i) {
    const fs::path path = members[i].name;
    const auto key = key_of(path), stem = fs::path(key).filename().string();
    auto& name = by_key[key];
    for (int number = 1; name.empty(); ++number) {
      auto wish = number == 1 ? stem : fmt::format("{}-{}", stem, number);
      if (taken.insert(wish).second) name = wish;
    }
    names[i] = name + path.filename().string().substr(stem.size());
  }
  return names;
}

void check_sizes(const fs::path& zip, const std::string& name, const fs::path& dataset, const std::vector<Member>& members) {
  uint64_t total = 0;
  for (const auto& member : members) {
    if (member.bytes > kMostOfAMember) config_error("studio", "{} in {} is larger than 4 GiB", member.name, name);
    total += member.bytes;
  }
  std::error_code error;
  if (const auto packed = fs::file_size(zip, error); total > kFreeOfRatio && total / kMostRatio > packed)
    config_error("studio", "{} would become {} times as large, which pictures do not; unpack it yourself if you trust it", name,
                 total / std::max<uint64_t>(1, packed));
  io::check_space(dataset / "unpacked", total);
}

/// Refuses an archive in which two members have one name: which of them is meant, and whose a caption is, nobody can say.
void check_names(const std::string& name, const std::vector<Member>& members) {
  std::set<std::string> names;
  for (const auto& member : members) {
    if (!names.insert(member.name).second)
      config_error("studio", "{} has two members called {}; unpack it, and add its files", name, member.name);
  }
}

/// Gives unpacked files, which have the numbers of their members, their names in the dataset: all of them or none. False where another file
/// has taken one of the names meanwhile.
bool settle(const fs::path& from, const fs::path& dataset, const std::map<size_t, std::string>& names) {
  std::vector<size_t> moved;
  for (const auto& [i, name] : names) {
    if (move_new(from / std::to_string(i), dataset / name)) {
      moved.push_back(i);
      continue;
    }
    std::error_code ignored;
    for (auto back : moved) fs::rename(dataset / names.at(back), from / std::to_string(back), ignored);
    return false;
  }
  return true;
}

}  // namespace

Unpacked unpack(const fs::path& zip, const std::string& name, const fs::path& dataset) {
  Unpacked unpacked;
  Archive archive(zip, name);
  auto members = archive.members(unpacked.passed_over);
  std::erase_if(members, [&](const Member& member) {
    if (is_hidden(member.name)) return true;
    const bool is_taken = Datasets::takes(fs::path(member.name).filename().string());
    if (!is_taken) unpacked.passed_over.push_back(member.name);
    return !is_taken;
  });
  check_names(name, members);
  check_sizes(zip, name, dataset, members);
  const Arrival beside(dataset);
  make_folder(beside.path());
  for (size_t i = 0; i < members.size(); ++i) archive.write(members[i], beside.path() / std::to_string(i));
  while (!settle(beside.path(), dataset, names_in(dataset, members))) continue;
  unpacked.num_files = std::ssize(members);
  return unpacked;
}

}  // namespace burnish::studio
