#include "train/training_units.h"

namespace burnish::train {

pipeline::Units training_units(models::Model& model) {
  auto groups = model.units();
  pipeline::Units all;
  for (const auto* group :
       {&groups.encode_prompt, &groups.encode_image, &groups.encode_size, &groups.add_noise, &groups.denoise, &groups.loss})
    all.insert(all.end(), group->begin(), group->end());
  return all;
}

}  // namespace burnish::train
