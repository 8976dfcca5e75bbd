#include "data/window_beside.h"

namespace burnish::data {

ClipWindow window_beside(const ClipWindow& window, const ClipRule& rule, bool has_times, bool beside_has_times) {
  auto beside = window;
  if (has_times && !beside_has_times) beside.rate = {1, 1};
  if (!has_times && beside_has_times) beside.rate = rule.rate;
  return beside;
}

}  // namespace burnish::data
