#include "models/families/wan/diffsynth_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "base/input_error.h"
#include "models/families/wan/frames.h"

namespace burnish::models::wan {

namespace {

using Find = DiffsynthValue::Find;

const std::string kContext = "context", kBeside = "y", kLatents = "input_latents";

at::Tensor one(const Find& find, const std::string& name, int64_t dims) {
  auto found = find(name);
  if (found.size() != 1 || found[0].dim() != dims || found[0].size(0) != 1)
    data_error("models", "one tensor '{}' of {} dimensions, the first of them 1, was expected, and the file has another", name, dims);
  return found[0];
}

/// Texts are filled up with rows of zeros there, of which one stands for all here: how many rows are the text's own.
int64_t length_of(const at::Tensor& context_BTE) {
  auto of_text = context_BTE[0].ne(0).any(1).nonzero();
  return of_text.numel() == 0 ? 0 : of_text.max().item<int64_t>() + 1;
}

pipeline::Value text_of(const Find& find) {
  auto context = one(find, kContext, 3);
  const auto length = length_of(context);
  return context.narrow(1, 0, std::min(length + 1, context.size(1))).contiguous();
}

pipeline::Value counts_of(const Find& find) {
  auto context = one(find, kContext, 3);
  const auto length = length_of(context);
  auto counts = at::ones({1, length}, context.options().dtype(at::kFloat));
  if (const auto missing = context.size(1) - length; missing > 0)
    counts = at::constant_pad_nd(counts, {0, 1}, static_cast<double>(missing));
  return counts;
}

/// The first frame, which is given, counts in no loss.
pipeline::Value loss_map_of(const Find& find) {
  auto latents = one(find, kLatents, 5);
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
    return one(find, kBeside, 5).narrow(1, 0, num_control).contiguous();
  };
  auto beside = [num_control, num_latents](const Find& find) -> pipeline::Value {
    auto y = one(find, kBeside, 5);
    auto rest = y.narrow(1, num_control, y.size(1) - num_control);
    const auto num_missing = kMaskChannels + num_latents - rest.size(1);
    return num_missing > 0 ? at::constant_pad_nd(rest, {0, 0, 0, 0, 0, 0, num_missing, 0}) : rest.contiguous();
  };
  const std::map<std::string, DiffsynthValue> theirs{
      {"text_embedding", {.name = kContext, .make = text_of}},
      {"text_counts", {.name = kContext, .make = counts_of}},
      {"first_latents", {.name = "first_frame_latents"}},
      {"loss_map", {.name = kLatents, .make = loss_map_of}},
      {"image_states", {.name = "clip_feature"}},
      {"vace_context", {.name = "vace_context"}},
      {"reference_latents", {.name = "reference_latents"}},
      {"control_latents", {.name = kBeside, .make = control}},
      {"beside_latents", {.name = kBeside, .make = beside}},
  };
  for (const auto& [name, value] : theirs) {
    if (auto it = names.values.find(name); it != names.values.end()) it->second.diffsynth = value;
  }
}

}  // namespace burnish::models::wan
