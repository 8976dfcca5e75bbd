#include "models/families/wan/diffsynth_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>

#include "models/families/wan/frames.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/umt5.h"

namespace burnish::models::wan {

namespace {

using Find = DiffsynthValue::Find;

const std::string kBeside = "y", kLatents = "input_latents";

/// The first frame, which is given, counts in no loss.
pipeline::Value loss_map_of(const Find& find) {
  auto latents = one_of_cache(find, kLatents, 5);
  auto map = at::ones({1, 1, latents.size(2), 1, 1}, latents.options());
  map.select(2, 0).fill_(0);
  return map;
}

}  // namespace

void add_diffsynth_values(Names& names, const Config& dit) {
  const bool can_control = !dit.extras.has_camera && dit.in_channels > 2 * dit.out_channels + kMaskChannels;
  const auto num_latents = dit.out_channels, num_control = can_control ? num_latents : 0;
  // Of what stands behind the noise, the clip that controls comes first; a mask that the model does not read was left out.
  auto control = [num_control](const Find& find) -> pipeline::Value {
    return one_of_cache(find, kBeside, 5).narrow(1, 0, num_control).contiguous();
  };
  auto beside = [num_control, num_latents](const Find& find) -> pipeline::Value {
    auto y = one_of_cache(find, kBeside, 5);
    auto rest = y.narrow(1, num_control, y.size(1) - num_control);
    const auto num_missing = kMaskChannels + num_latents - rest.size(1);
    return num_missing > 0 ? at::constant_pad_nd(rest, {0, 0, 0, 0, 0, 0, num_missing, 0}) : rest.contiguous();
  };
  const std::map<std::string, DiffsynthValue> theirs{
      {"first_latents", {.name = "first_frame_latents"}},
      {"loss_map", {.name = kLatents, .make = loss_map_of}},
      {"image_states", {.name = "clip_feature"}},
      {"vace_context", {.name = "vace_context"}},
      {"reference_latents", {.name = "reference_latents"}},
      {"control_latents", {.name = kBeside, .make = control}},
      {"beside_latents", {.name = kBeside, .make = beside}},
  };
  add_diffsynth_text(names);
  for (const auto& [name, value] : theirs) {
    if (auto it = names.values.find(name); it != names.values.end()) it->second.diffsynth = value;
  }
}

}  // namespace burnish::models::wan
