#pragma once
#include "nn/weight_source.h"
#include "quant/format.h"

namespace burnish::quant {

/// A weight W [out, in] as codes and scales.
struct QuantizedWeight {
  Format format;
  at::Tensor codes;  ///< [out, bytes of a row] uint8 (code_bytes)
  /// fp32: [1, 1], by rows [out, 1], by blocks [ceil(out / 128), ceil(in / 128)], by neighbours [out, ceil(in / group)]; [1, 1] ones where
  /// scales lie in the codes
  at::Tensor scales;
  int64_t out = 0, in = 0;
  int64_t rotation = 0;  ///< codes are of rows of which so many neighbours were rotated together (kernels/rotate); 0: none
  int64_t num_bytes() const { return static_cast<int64_t>(codes.nbytes() + scales.nbytes()); }
};

/// Quantizes a weight that is read tile by tile: scale = largest magnitude / largest code, codes rounded to nearest, ties to even. Rows are
/// rotated in fp32 before that where the format says so. No more than one tile is ever held in fp32. `rows(begin, end)` gives fp32 rows and
/// may be asked twice for a tile. NaN, infinity, or a value beyond the range of unscaled codes is a data Error that names the weight.
QuantizedWeight quantize(const nn::WeightSource::Rows& rows, int64_t out, int64_t in, Format format, c10::Device device,
                         const std::string& name);
/// Quantizes a tensor as it lies in a file.
QuantizedWeight quantize(const at::Tensor& weight, Format format, c10::Device device, const std::string& name);

/// Throws a data Error that names the weight when it holds NaN or infinity.
void check_finite(const at::Tensor& values, const std::string& name);

/// The format in which codes of a file are held: theirs.
Format format_of(const Codes& codes);
/// Takes codes from a file as they are. Those that stand for NaN or infinity are a data Error that names the weight.
QuantizedWeight from_codes(const Codes& codes, c10::Device device, const std::string& name);

/// Returns the scales of rows begin to end as [n, groups], for kernels::unpack and for dividing.
at::Tensor scales_of_rows(const QuantizedWeight& weight, int64_t begin, int64_t end);

/// Rows begin to end of W in `dtype`; without scales the values of the codes alone, rotated as they are.
at::Tensor dequantize_rows(const QuantizedWeight& weight, int64_t begin, int64_t end, c10::ScalarType dtype, bool with_scales = true);

}  // namespace burnish::quant
