#pragma once
#include <set>

#include "base/pattern.h"
#include "convert/weights.h"
#include "io/safetensors.h"
#include "quant/format.h"

namespace burnish::convert {

/// The format in which a model's numbers are written.
struct NumberFormat {
  std::optional<c10::ScalarType> dtype = {};  ///< nothing keeps each tensor's own
  bool keeps_codes = true;                    ///< whether FP8 weights stay FP8
  std::optional<quant::Format> weights = {};  ///< format of linear weights that are not FP8 yet: FP8 with one scale, a scale a row, or none
};

/// A component on its way into a file: tensors under the file's names, made one at a time.
class WrittenComponent {
 public:
  /// `component` has its weights merged where models::Components holds a merge for it. A data Error for scales that the file cannot have.
  WrittenComponent(const models::Model& model, const std::string& component, const models::FileNames& names, const NumberFormat& format);

  /// Lists all tensors that will be written, by headers alone.
  std::vector<io::TensorSpec> specs() const;
  /// Calls `write` with every tensor. A data Error for weights that are not finite after a merge, or do not fit their format.
  void make(const std::function<void(const std::string& name, const at::Tensor& tensor)>& write) const;
  int64_t num_tensors() const { return std::ssize(items_); }
  const std::string& component() const { return what_; }
  /// Returns what stands before the names of its tensors in the file.
  const std::string& prefix() const { return prefix_; }

 private:
  /// An item of the file: how one of its tensors is made of ours.
  struct Item {
    io::KeyRule rule;
    std::vector<int64_t> shape;
    c10::ScalarType dtype;
    std::optional<quant::Format> quantized;                ///< anew
    bool kept = false;                                     ///< codes as they are
    std::optional<std::vector<int64_t>> scale_shape = {};  ///< shape of the scale of codes that have one
  };
  struct Parts;
  Parts parts_of(const io::KeyRule& rule) const;
  Item item_of(const io::KeyRule& rule) const;
  at::Tensor numbers(const std::string& name) const;
  at::Tensor merged(const std::string& name) const;
  at::Tensor kept_scale(const io::KeyRule& rule) const;
  void make_codes(const Item& item, const std::function<void(const std::string&, const at::Tensor&)>& write) const;
  bool touched(const std::string& name) const;

  ComponentWeights weights_;
  std::shared_ptr<const models::Merge> merge_;
  std::string prefix_, what_;
  NumberFormat format_;
  std::set<std::string> kept_;  ///< parameters that the component holds in fp32 whatever the rest is in
  std::vector<Pattern> high_precision_;
  std::vector<Item> items_;
};

}  // namespace burnish::convert
