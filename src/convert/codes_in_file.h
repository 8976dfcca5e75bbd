#pragma once
#include <string_view>

#include "io/safetensors.h"
#include "quant/format.h"

// Weights in codes as ComfyUI's files have them: FP8 with its scale, INT8 and NVFP4 with a mark that says their format.
namespace burnish::convert {

/// A weight's codes and what stands beside them in a file.
struct CodesInFile {
  CodeKind kind = CodeKind::e4m3;
  at::Tensor codes;        ///< in the file's dtype and the weight's shape; [out, in / 2] where a byte has two
  at::Tensor scales = {};  ///< undefined, fp32 [] or [out, 1]; of NVFP4 E4M3, one for 16 neighbours, as cuBLAS lays them out
  at::Tensor whole = {};   ///< of NVFP4: a number that all scales are multiplied by
  int64_t rotation = 0;    ///< neighbours of a row that were rotated together; 0: none
};

constexpr std::string_view kFp8Scale = ".scale_weight";

/// NVFP4, which is a format of files alone.
constexpr quant::Format kNvfp4{CodeKind::e2m1, quant::Scaling::row_block, 16};

/// Tells whether files are written that have weights in these codes.
bool is_written(CodeKind kind);
/// Tells whether a weight [out, in] can be written in a format: NVFP4 has sides of multiples of 16.
bool fits(const quant::Format& format, at::IntArrayRef shape);

/// A weight in codes of its own, rounded to nearest; on the meta device without numbers. A data Error names one that holds no numbers.
CodesInFile codes_for_file(const at::Tensor& weight, const quant::Format& format, const std::string& name);

/// The dtype of codes in a file.
c10::ScalarType dtype_in_file(CodeKind kind);
/// The tensors of a file that has the weight of this name, "<layer>.weight".
io::NamedTensors tensors_of(const CodesInFile& weight, const std::string& name);

}  // namespace burnish::convert
