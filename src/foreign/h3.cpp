#include "foreign/h3.h"

namespace burnish::foreign {

int64_t frames_of_h3(double number) {
  const auto frames = static_cast<int64_t>(number);
  return frames < 5 ? 1 : (frames - 5) / 17 * 17 + 5;
}

}  // namespace burnish::foreign
