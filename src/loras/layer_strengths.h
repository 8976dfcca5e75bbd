#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loras/lora_file.h"

namespace burnish::loras {

/// Factors on the strength of a LoRA for some of its layers, as users write them: numbers by name (base/numbers_by_name.h), or one number
/// for each block.
///
/// A layer goes by our path, with and without its component before it ("dit.blocks.3.to_q"), by what adapter targets call it, and by its
/// name in single files of the model. Layers that no name fits have the factor 1.
///
/// Numbers alone are one for each block of the denoiser in order of execution, or one more, which is the first and for all other layers.
/// UNets and FLUX.1 take as many as sd-webui-lora-block-weight does too (lora_block_weight.py): 17 or 26 for SD 1.5, 12 or 20 for SDXL, 61.
class LayerStrengths {
 public:
  LayerStrengths() = default;
  /// Reads the text; none where it is neither: no sign of equality is in it, and no comma between numbers. Throws a config Error for names
  /// or numbers that are malformed.
  static std::optional<LayerStrengths> parse(std::string_view text);

  bool is_given() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

  /// Returns the factor of each adapter of a file, in their order. Throws a config Error for a name that fits no layer of the file, and for
  /// more or fewer numbers than such a model has.
  using ByComponent = std::map<std::string, std::vector<double>>;
  ByComponent of(const models::Model& model, const AdaptersByComponent& adapters, const std::string& file) const;

 private:
  std::string text_;
};

}  // namespace burnish::loras
