#include "data/unpacked_parquet.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "data/file_notes.h"
#include "data/parquet_rows.h"
#include "data/tar_writer.h"
#include "io/files.h"
#include "io/hash.h"
#include "io/user_cache.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// Of the folder; another number when what is written changes.
constexpr const char* kUnpackedFolder = "parquet-1";

constexpr size_t kMostReasonBytes = 200;

fs::path cache_folder() {
  if (auto cache = io::user_cache(); !cache.empty()) return cache / kUnpackedFolder;
  config_error("data", "Parquet files are unpacked into a cache, and there is no folder for it; name one in XDG_CACHE_HOME");
}

/// Our library finds Arrow's where it was linked to them or along LD_LIBRARY_PATH.
OpenParquet* load_library(const fs::path& file) {
  static const auto path = companion("parquet");
  if (!io::is_there(path)) {
    data_error("data",
               "{} cannot be read: this program was built without Arrow's library; the wheel of burnish has it, and a checkout after "
               "./dev setup and ./dev build",
               file.string());
  }
  static const Library library(path.string());
  if (!library.is_open())
    data_error("data", "{} is read by Arrow's library, which cannot be opened ({}); pip install 'pyarrow>=26,<27'", file.string(),
               library.problem());
  return library.find(kOpenParquet);
}

[[noreturn]] void refuse_parquet(const fs::path& file, const std::exception& error) {
  data_error("data", "{} is no Parquet file, or is damaged; copy it again (Arrow says: {})", file.string(),
             std::string(error.what()).substr(0, kMostReasonBytes));
}

/// The ending of a name if it is one that files have: ".jpg".
std::string ending_of(const std::string& name) {
  auto ending = fs::path(name).extension().string();
  bool is_plain =
      ending.size() <= 6 && std::all_of(ending.begin() + !ending.empty(), ending.end(), [](unsigned char c) { return std::isalnum(c); });
  return is_plain ? ending : "";
}

/// Writes the files of a row, and puts their names where they belong in its values.
std::string unpack_row(ParquetRow row, int64_t number, const std::string& file_column, TarWriter& archive) {
  std::vector<std::string> places;
  for (const auto& file : row.files) {
    auto count = places.empty() ? "" : fmt::format(".{}", places.size());
    auto name = fmt::format("{:08}{}{}", number, count, ending_of(file.path));
    archive.add(name, file.bytes);
    row.values[file.place] = name;
    places.push_back(file.place.to_string());
  }
  if (!file_column.empty() && !row.values.contains("image")) {
    auto place = (nlohmann::json::json_pointer() / file_column).to_string();
    row.values["image"] = row.values[file_column];
    if (std::ranges::find(places, place) != places.end()) places.push_back("/image");
  }
  nlohmann::json line{{"values", std::move(row.values)}, {"files", std::move(places)}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void unpack(const fs::path& file, const fs::path& target) {
  auto* open = load_library(file);
  io::check_space(target, fs::file_size(file));
  io::remove_partial_files(target.parent_path());
  TarWriter archive(target);
  std::string lines;
  try {
    std::unique_ptr<ParquetRows> rows(open(file.c_str()));
    info("{} is unpacked once, into {}", file.string(), target.string());
    const auto file_column = rows->only_file_column();
    Progress progress("unpack " + file.filename().string(), rows->num_rows());
    for (int64_t number = 0; auto row = rows->next(); ++number) {
      if (interrupted())
        throw Error(Exit::interrupted, "data", "interrupted while unpacking " + file.string() + "; nothing was trained yet");
      lines += unpack_row(std::move(*row), number, file_column, archive);
      progress.update(number + 1);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    refuse_parquet(file, error);
  }
  archive.add(kRowsMember, lines);
  archive.commit();
}

}  // namespace

fs::path unpacked_parquet(const fs::path& file) {
  auto folder = cache_folder();
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) data_error("data", "cannot make the folder {}: {}; name another one in XDG_CACHE_HOME", folder.string(), failed.message());
  FileNotes hashes(folder / "hashes.json");
  auto archive = folder / (hashes.get({file}, io::file_hash).front() + ".tar");
  hashes.save();
  if (!io::is_there(archive)) unpack(file, archive);
  return archive;
}

}  // namespace burnish::data
