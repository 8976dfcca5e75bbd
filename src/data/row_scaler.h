#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "data/crop.h"

namespace burnish::data {

/// Scales a picture while its rows come one after the other, so that what it works on stays in the caches. The filter is the antialiased
/// bilinear one of Pillow's Image.resize, in its 8-bit fixed-point arithmetic and its order (base/scaling_order.h): the same bytes on every
/// processor.
class RowScaler {
 public:
  /// Makes a scaler of a picture of these sides and of 1 to 4 channels; only what is kept of it is computed.
  RowScaler(Size picture, int64_t channels, const Crop& crop) : RowScaler(picture, channels, covering_size(picture, crop.size), crop) {}
  /// Makes one that brings the whole picture to the sides `scaled`, whatever its shape, out of which the crop is kept.
  RowScaler(Size picture, int64_t channels, Size scaled, const Crop& crop);
  /// The next row of the picture, [W, C].
  void take(const uint8_t* row_WC);
  /// The picture made of the rows so far, uint8 [H, W, C] of the crop's size.
  const at::Tensor& scaled_HWC() const { return scaled_HWC_; }

 private:
  /// A side of the picture: for every kept position where its window starts, and `widest` fixed-point weights.
  struct Side {
    int64_t widest = 0;
    std::vector<int64_t> first = {};
    std::vector<int32_t> weights = {};
  };
  /// The columns: what is picked out of a row, a line of bytes for each weight of a window, so that all windows are weighed at once.
  struct Columns {
    int64_t widest = 0;
    int64_t first_byte = 0, num_bytes = 0;            ///< the bytes of a row that the windows reach
    std::vector<int32_t> offsets = {}, weights = {};  ///< by line: where each pixel is picked from these bytes, and the weight of each byte
    std::vector<uint8_t> row = {}, picked = {};       ///< these bytes of the row at hand, and the lines
  };
  static Side side_of(int64_t in, int64_t out, int64_t first, int64_t count);
  static Columns columns_of(const Side& side, int64_t channels, bool flip);
  /// The columns of the bytes in columns_.row.
  void scale_columns(uint8_t* to);
  void finish_row();

  int64_t channels_;
  bool rows_first_;
  Side rows_;
  Columns columns_;
  int64_t num_taken_ = 0, num_finished_ = 0;
  /// rows_.widest rows, row y in place y % widest: of scaled columns, or with rows first of the bytes of the picture that the columns
  /// reach.
  std::vector<uint8_t> recent_;
  std::vector<int32_t> sums_;
  at::Tensor scaled_HWC_;
};

}  // namespace burnish::data
