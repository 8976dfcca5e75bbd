#pragma once
#include <set>

#include "base/pattern.h"
#include "convert/codes_in_file.h"
#include "convert/weights.h"

namespace burnish::convert {

/// The format in which a model's numbers are written.
struct NumberFormat {
  std::optional<c10::ScalarType> dtype = {};  ///< nothing keeps each tensor's own
  bool keeps_codes = true;                    ///< whether weights in FP8 and INT8 stay so
  std::optional<quant::Format> weights = {};  ///< what linear weights become: FP8, INT8 or NVFP4
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
    std::vector<io::TensorSpec> specs = {};       ///< the tensor, and what stands beside codes
    std::optional<quant::Format> quantized = {};  ///< anew
    bool kept = false;                            ///< codes as they are
  };
  struct Parts;
  Parts parts_of(const io::KeyRule& rule) const;
  Item item_of(const io::KeyRule& rule) const;
  at::Tensor numbers(const std::string& name) const;
  at::Tensor merged(const std::string& name) const;
  at::Tensor kept_scale(const io::KeyRule& rule) const;
  std::optional<CodesInFile> kept_codes(const io::KeyRule& rule, bool is_plan) const;
  io::NamedTensors made_codes(const Item& item) const;
  bool has_scaled_fp8() const;
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
