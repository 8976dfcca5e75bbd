#include "records/json_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/files.h"

namespace burnish::records {

namespace {

std::optional<Record> parse(std::string_view line) { return to_record(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false)); }

/// Drops the lines of later steps, then hands the path on to what appends to it.
const std::filesystem::path& cut(const std::filesystem::path& path, int64_t last_step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    auto record = parse(line);
    if (record && record->step <= last_step) kept += line + "\n";
  }
  io::write_text_atomic(path, kept);
  return path;
}

}  // namespace

JsonLog::JsonLog(const std::filesystem::path& path, int64_t last_step) : file_(cut(path, last_step)) {}

void JsonLog::write(const nlohmann::json& line) { file_.write(line.dump() + "\n"); }

void Log::add(const Record& record) {
  auto num_rows = steps.size();
  steps.push_back(record.step);
  auto set = [&](const std::string& name, double value) {
    auto& column = columns[name];
    column.resize(num_rows + 1, std::numeric_limits<double>::quiet_NaN());
    column.back() = value;
  };
  set("time", record.time);
  for (const auto& [name, value] : record.values) set(name, value);
  for (auto& [name, column] : columns) column.resize(num_rows + 1, std::numeric_limits<double>::quiet_NaN());
}

bool LogFollower::goes_on(std::istream& file) const {
  if (!file) return offset_ == 0;  // not there, as before
  std::string found(last_line_.size(), '\0');
  file.seekg(static_cast<std::streamoff>(offset_ - last_line_.size()));
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  return file && found == last_line_;
}

LogFollower::NewRecords LogFollower::next() {
  NewRecords part;
  std::ifstream file(path_, std::ios::binary);
  if (!started_ || !goes_on(file)) {
    part.from_start = true;
    started_ = true;
    offset_ = 0;
    last_line_.clear();
    file.clear();
  }
  file.seekg(static_cast<std::streamoff>(offset_));
  // A line that the end of the file cuts off is not finished; getline says so by reaching the end.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    offset_ += line.size() + 1;
    if (auto record = parse(line)) part.log.add(*record);
    else ++part.log.num_skipped;
    last_line_ = line + "\n";
  }
  return part;
}

}  // namespace burnish::records
