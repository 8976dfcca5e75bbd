#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint_files.h"

// What ways of having weights as codes are made of.
namespace burnish::models {

/// The end of the name of a layer's weight.
inline constexpr std::string_view kWeight = ".weight";

/// The tensors of codes (base/codes.h).
struct CodeTensors {
  at::Tensor codes, scales = {};
};

/// A weight that lies in files as codes.
struct CodedWeight {
  std::vector<int64_t> shape;
  Codes layout;                          ///< on the meta device: by the weight's rows, or as one row where blocks reach over their ends
  std::vector<std::string> beside = {};  ///< tensors that are read with it
  std::function<CodeTensors(const io::TensorSource& tensors)> read;  ///< in the layout's shapes
  /// Tells whether codes can be held in its place, row by row.
  bool has_rows() const { return layout.sizes == shape; }
  /// Reads codes as they are laid out.
  Codes codes_in(const io::TensorSource& tensors) const;
};

/// Scales of a weight on the meta device.
at::Tensor scales_on_meta(int64_t rows, int64_t groups);

/// The tensors of some files, and what marks say of layers: ComfyUI's `<layer>.comfy_quant` and `_quantization_metadata`.
struct MarkedFiles {
  explicit MarkedFiles(const io::TensorSource& tensors);
  /// Returns what is said of the layer of a weight; null: nothing.
  const nlohmann::json* mark_of(const std::string& weight) const;

  const io::TensorSource& tensors;
  std::map<std::string, nlohmann::json> marks;  ///< by layers
};

inline constexpr std::string_view kComfyMark = ".comfy_quant";
inline constexpr const char* kQuantizationMetadata = "_quantization_metadata";

/// Returns the format that a mark names; "" for none.
std::string format_of(const nlohmann::json& mark);
/// Returns the layer of a weight: its name without ".weight".
std::string layer_of(const std::string& weight);

/// A way in which files have weights as codes: finds a weight of it under a name, nothing where it is none. A data Error where it is one
/// and damaged.
using Coding = std::optional<CodedWeight> (*)(const MarkedFiles& files, const std::string& name);

/// The numbers that codes stand for, fp32 in the weight's shape.
at::Tensor numbers_of(const Codes& codes);

/// Throws a data Error unless a tensor of scales has floating-point numbers, one or one for each of so many rows.
void check_scale(const io::TensorSource& tensors, const std::string& name, int64_t rows);
/// The scale beside a layer's weight as fp32, [1, 1] or [rows, 1], once it is checked.
at::Tensor scale_in(const io::TensorSource& tensors, const std::string& name, int64_t rows);

}  // namespace burnish::models
