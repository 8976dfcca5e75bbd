#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace burnish::records {

/// A step as a run reports it: numbers by name. A number inside an object or array is named by its path ("loss_by_time/3/raw"); null, which
/// says that there is none this time, is NaN.
struct Record {
  int64_t step = 0;
  double time = std::numeric_limits<double>::quiet_NaN();  ///< seconds since 1970
  std::vector<std::pair<std::string, double>> values;      ///< all others
};

/// The record that an object with a whole number "step" holds; nothing for any other value. What is neither number nor null is left out.
std::optional<Record> to_record(const nlohmann::json& line);

}  // namespace burnish::records
