#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "records/append_file.h"
#include "records/record.h"

namespace burnish::records {

/// Writes records as CSV (RFC 4180): a row for each, under the columns step, time and what the first record has. NaN is an empty cell;
/// what only later records have is left out.
class CsvLog {
 public:
  /// Goes on after the rows of steps up to `last_step`; those of later steps, which a resumed run takes again, are dropped.
  CsvLog(const std::filesystem::path& path, int64_t last_step);
  void write(const Record& record);

 private:
  std::vector<std::string> columns_;  ///< none before the first record
  AppendFile file_;
};

}  // namespace burnish::records
