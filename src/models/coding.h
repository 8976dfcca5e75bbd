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

/// A weight that lies in files as codes.
struct CodedWeight {
  CodeKind kind;
  std::vector<int64_t> shape;
  std::vector<std::string> beside = {};                        ///< tensors that are read with it
  std::function<Codes(const io::TensorSource& tensors)> read;  ///< codes by the weight's rows; where `is_flat`, all of it as one row
  bool is_flat = false;                                        ///< whether blocks reach over the ends of rows
  /// Whether codes can be held in its place, row by row.
  bool has_rows() const { return !is_flat; }
};

/// The tensors of some files, and what marks say of layers: ComfyUI's `<layer>.comfy_quant` and `_quantization_metadata`.
struct MarkedFiles {
  explicit MarkedFiles(const io::TensorSource& tensors);
  /// Returns what is said of the layer of a weight; null: nothing.
  const nlohmann::json* mark_of(const std::string& weight) const;

  const io::TensorSource& tensors;
  std::map<std::string, nlohmann::json> marks;  ///< by layers
};

inline constexpr std::string_view kComfyMark = ".comfy_quant";

/// Returns the format that a mark names; "" for none.
std::string format_of(const nlohmann::json& mark);
/// Returns the layer of a weight: its name without ".weight".
std::string layer_of(const std::string& weight);

/// A way in which files have weights as codes: finds a weight of it under a name, nothing where it is none. A data Error where it is one
/// and damaged.
using Coding = std::optional<CodedWeight> (*)(const MarkedFiles& files, const std::string& name);

/// The numbers that codes stand for, fp32 in the weight's shape.
at::Tensor numbers_of(const Codes& codes);

/// The scale beside a layer's weight as fp32, [1, 1] or [rows, 1]. A data Error for another number of them.
at::Tensor scale_in(const io::TensorSource& tensors, const std::string& name, int64_t rows);

}  // namespace burnish::models
