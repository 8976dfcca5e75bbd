#include "data/parquet.h"

#include "base/input_error.h"
#include "data/archived_files.h"
#include "data/unpacked_parquet.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

Metadata load_parquet(const fs::path& file) {
  if (!io::is_there(file)) data_error("data", "the Parquet file {} does not exist", file.string());
  // The folder is resolved and the name is not: in the hub's cache a link of that name leads to a file without ending.
  auto whole = fs::canonical(fs::absolute(file).parent_path()) / file.filename();
  auto lines = parse_json_lines(read_file_bytes(whole / kRowsMember), file.string());
  Metadata m;
  for (auto& line : lines.rows) {
    auto& row = m.rows.emplace_back(std::move(line.at("values")));
    for (const auto& place : line.at("files")) {
      auto& cell = row[nlohmann::json::json_pointer(place.get<std::string>())];
      cell = (whole / cell.get<std::string>()).string();
    }
  }
  for (const auto& [column, value] : m.rows.front().items()) m.columns.push_back(column);
  return m;
}

}  // namespace burnish::data
