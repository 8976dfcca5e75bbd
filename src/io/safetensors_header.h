#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/codes.h"

namespace burnish::io {

/// The place of a tensor in a safetensors file, with its dtype and shape.
struct TensorInfo {
  c10::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  ///< bytes from the start of the data section
  /// Codes that the file has in the place of numbers, on the meta device: as TensorFile::codes gives them, with their scales, or all as one
  /// row where it gives none. Dtype and shape are of what TensorFile::tensor gives.
  std::optional<Codes> codes = {};

  std::optional<CodeKind> kind() const { return codes ? std::optional(codes->kind) : std::nullopt; }
};

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses and checks the JSON header against `data_bytes`, the length of the data section: known dtypes, sizes that match shapes,
/// offsets in range, no overlap, no hole. A data Error names `file`, the tensor and what was found.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, std::string_view file);

/// Says what a tensor's numbers are in its file: "bf16", "NF4".
std::string numbers_name(const TensorInfo& info);

/// Names a dtype as headers do: "F32", "BF16", ...; throws a data Error for a dtype the format does not know.
std::string safetensors_dtype(c10::ScalarType dtype);

}  // namespace burnish::io
