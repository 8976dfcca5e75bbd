#pragma once
#include <cstdint>

namespace burnish {

/// Whether a picture's rows are scaled before its columns, which decides what is rounded between: where Pillow 13 does it (src/libImaging/
/// Resample.c, ImagingResampleInner), that is where the height loses more than twice the pixels that the width does. Pillow before 13
/// always begins with the columns.
constexpr bool scales_rows_first(int64_t height, int64_t width, int64_t new_height, int64_t new_width) {
  return height > new_height && height - new_height > 2 * (width - new_width);
}

}  // namespace burnish
