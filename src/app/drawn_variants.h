#pragma once
#include "app/sample_options.h"
#include "drawing/picture.h"
#include "models/model/model.h"

namespace burnish::app {

/// A way in which all pictures are drawn once more, from equal noise.
struct DrawnVariant {
  std::string label;            ///< what a row of pictures says below it
  std::vector<double> factors;  ///< on the strengths of the LoRAs, in their order
  std::string what = {};        ///< for messages; "" for the whole
};

/// Returns what lora_strengths and without_blocks ask for; one alone where neither does. For without_blocks the file of the LoRA stands in
/// `o.lora` once for each group of blocks, with the factor 0 for all others, and before them for all layers that are in no block.
std::vector<DrawnVariant> variants_of(SampleOptions& o, models::Model& model);

/// Repeats the pictures for each variant.
std::vector<drawing::Picture> at_variants(const std::vector<drawing::Picture>& pictures, const std::vector<DrawnVariant>& variants);

}  // namespace burnish::app
