#include "train/subject/training_units.h"

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::train {

pipeline::Units training_units(models::Model& model, const std::vector<models::Expert>& experts) {
  auto groups = model.units_of(experts);
  pipeline::Units all;
  for (const auto* group :
       {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size, &groups.add_noise, &groups.denoise})
    all.insert(all.end(), group->begin(), group->end());
  return all;
}

std::string component_called(const std::string& name, const std::vector<std::string>& components) {
  if (contains(components, name)) return name;
  if (name.ends_with("_1") && contains(components, name.substr(0, name.size() - 2))) return name.substr(0, name.size() - 2);
  config_error("train", "'{}' is no part of this model that training runs; there are {}", name, join(components));
}

}  // namespace burnish::train
