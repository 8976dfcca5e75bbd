#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "records/json_log.h"

namespace burnish::records {

/// A sample as a log of visits names it.
struct VisitedSample {
  int64_t row = 0;
  std::string file, caption;
};
/// A visit of a sample in a step: its loss before it was weighted, and the share of noise, 0 to 1, at which that was taken.
struct Visit {
  int64_t step = 0, row = 0;
  double time = 0, loss = 0;
};

/// Returns the log of a run's visits.
std::filesystem::path visits_path(const std::filesystem::path& run);

/// Writes visits.jsonl: a line of step 0 that names the samples, and a line a step with [row, time, loss] of each of its visits, to four
/// and five digits.
class VisitLog {
 public:
  /// Goes on after the lines of steps up to `last_step`, as JsonLog does; a file without any begins with the samples.
  VisitLog(const std::filesystem::path& run, int64_t last_step, const std::vector<VisitedSample>& samples);
  void write(int64_t step, const std::vector<Visit>& visits);

 private:
  JsonLog lines_;
};

struct Visits {
  std::vector<VisitedSample> samples;  ///< by rising row
  std::vector<Visit> all;              ///< by rising step
};
/// Reads visits.jsonl of a run; a data Error where there is none. Lines that are no record are passed over.
Visits read_visits(const std::filesystem::path& run);

}  // namespace burnish::records
