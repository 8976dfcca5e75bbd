#include "records/visits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::records {

namespace {

/// Rounds to so many digits behind the first one.
double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, digits - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

void add_samples(const nlohmann::json& list, Visits& visits) {
  for (const auto& sample : list)
    visits.samples.push_back({sample.at("row").get<int64_t>(), sample.value("file", ""), sample.value("caption", "")});
}

void add_visits(const nlohmann::json& line, Visits& visits) {
  for (const auto& visit : line.at("visits")) {
    if (visit.at(2).is_number())
      visits.all.push_back(
          {line.at("step").get<int64_t>(), visit.at(0).get<int64_t>(), visit.at(1).get<double>(), visit.at(2).get<double>()});
  }
}

}  // namespace

std::filesystem::path visits_path(const std::filesystem::path& run) { return run / "visits.jsonl"; }

VisitLog::VisitLog(const std::filesystem::path& run, int64_t last_step, const std::vector<VisitedSample>& samples)
    : lines_(visits_path(run), last_step) {
  if (std::filesystem::file_size(visits_path(run)) > 0) return;
  auto list = nlohmann::json::array();
  for (const auto& sample : samples) list.push_back({{"row", sample.row}, {"file", sample.file}, {"caption", sample.caption}});
  lines_.write({{"step", 0}, {"samples", list}});
}

void VisitLog::write(int64_t step, const std::vector<Visit>& visits) {
  auto list = nlohmann::json::array();
  for (const auto& visit : visits) list.push_back({visit.row, rounded(visit.time, 3), rounded(visit.loss, 4)});
  lines_.write({{"step", step}, {"visits", list}});
}

Visits read_visits(const std::filesystem::path& run) {
  const auto path = visits_path(run);
  if (!io::is_there(path))
    data_error("records",
               "{} has no visits.jsonl, which runs write that draw a time for each sample; name the folder of a run that trained",
               run.string());
  Visits visits;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      if (record.is_object() && record.contains("samples")) add_samples(record["samples"], visits);
      if (record.is_object() && record.contains("visits")) add_visits(record, visits);
    } catch (const nlohmann::json::exception&) {  // a line that was cut short or changed by hand
    }
  }
  std::ranges::sort(visits.samples, {}, &VisitedSample::row);
  return visits;
}

}  // namespace burnish::records
