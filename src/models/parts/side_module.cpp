#include "models/parts/side_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

namespace burnish::models {

at::Tensor control_latents(const at::Tensor& image_3HW, const at::Tensor& mask_3HW, const ModelParts& parts) {
  if (!mask_3HW.defined()) return parts.latents_of(image_3HW.unsqueeze(0));
  auto black = at::full({}, -1, image_3HW.options());
  auto latents = parts.latents_of(at::where(white_of(mask_3HW) > 0, black, image_3HW).unsqueeze(0));
  auto kept = 1 - every_nth((mask_3HW.mean(0) + 1) / 2, 0, parts.downsampling);
  return at::cat({latents, kept.unsqueeze(0).unsqueeze(0).to(latents.options())}, 1);
}

void add_encoding(UnitGroups& groups, const pipeline::Units& units) {
  auto& reads = groups.denoise.back().reads;
  for (const auto& unit : units) {
    groups.encode_references.push_back(unit);
    reads.insert(reads.end(), unit.writes.begin(), unit.writes.end());
  }
}

}  // namespace burnish::models
