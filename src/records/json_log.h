#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "records/append_file.h"
#include "records/record.h"

namespace burnish::records {

/// Writes log.jsonl: a line for each object.
class JsonLog {
 public:
  /// Goes on after the lines of steps up to `last_step`; the others, of steps that a resumed run takes again, are dropped, as is whatever
  /// is no record.
  JsonLog(const std::filesystem::path& path, int64_t last_step);
  void write(const nlohmann::json& line);

 private:
  AppendFile file_;
};

/// A log as a table: a row for each record, a column for each name that any of them has, NaN where one lacks it.
struct Log {
  std::vector<int64_t> steps;
  std::map<std::string, std::vector<double>> columns;  ///< "time" among them
  int64_t num_skipped = 0;                             ///< lines that are no record

  void add(const Record& record);
};

/// Reads log.jsonl while it grows. A last line without its end is left for later.
class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path path) : path_(std::move(path)) {}

  struct NewRecords {
    bool from_start = false;  ///< the first part, or the file was cut or rewritten: what was read before holds no longer
    Log log;                  ///< the records that came since
  };
  /// Reads what came since the last call. A file that is not there is an empty one.
  NewRecords next();

 private:
  /// Tells whether the file still holds what was read of it.
  bool goes_on(std::istream& file) const;

  std::filesystem::path path_;
  bool started_ = false;
  uint64_t offset_ = 0;
  std::string last_line_;  ///< the one that ends at the offset
};

}  // namespace burnish::records
