#pragma once
#include "records/visits.h"

namespace burnish::test {

/// Has a run log 40 visits of each of six samples, of which the loss of "4.png" is twice that of the others.
inline void plant_visits(const std::filesystem::path& run) {
  std::vector<records::VisitedSample> samples;
  for (int row = 0; row < 6; ++row) samples.push_back({row, std::to_string(row) + ".png", "a square"});
  records::VisitLog visits(run, 0, samples);
  for (int step = 1; step <= 40; ++step) {
    std::vector<records::Visit> all;
    for (int row = 0; row < 6; ++row) all.push_back({step, row, 0.3 + 0.01 * step, (row == 4 ? 2.0 : 1.0) + 0.02 * ((step + row) % 5)});
    visits.write(step, all);
  }
}

}  // namespace burnish::test
