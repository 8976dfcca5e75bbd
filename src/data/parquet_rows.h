#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What lies between the program and the library libburnish_parquet.so, which alone is linked to Arrow.
namespace burnish::data {

/// The bytes of a file that a cell of a Parquet file holds.
struct ParquetFileCell {
  nlohmann::json::json_pointer place;  ///< place in the row's values: "/image", or "/references/1" in a list
  std::string_view bytes;              ///< until the next row is asked for
  std::string path;                    ///< path by which the file was called; "" where that is not said
};

/// A row as JSON by column. What holds files (binary values, structs with `bytes` and `path` as the Hugging Face hub has them, and lists of
/// those) is null there, or its path where there are no bytes.
struct ParquetRow {
  nlohmann::json values = nlohmann::json::object();
  std::vector<ParquetFileCell> files = {};
};

/// The rows of a Parquet file in their order, of which no more is in memory than one of its row groups. What is wrong with the file is
/// thrown as std::runtime_error.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;
  virtual int64_t num_rows() const = 0;
  /// The column that holds files, one a row; "" where none does, or several do.
  virtual std::string only_file_column() const = 0;
  /// Reads the next row; none behind the last one.
  virtual std::optional<ParquetRow> next() = 0;
};

/// The name of the library's one function, which opens a Parquet file.
constexpr const char* kOpenParquet = "burnish_open_parquet";
using OpenParquet = ParquetRows*(const char* path);

}  // namespace burnish::data
