#include "models/families/longcat_image/keys.h"

#include "models/parts/mmdit_names.h"

namespace burnish::models::longcat_image {

namespace {

const RenamedLayers kEmbedders{
    {"time_in.in_layer", {"time_embed.timestep_embedder.linear_1"}},
    {"time_in.out_layer", {"time_embed.timestep_embedder.linear_2"}},
};

RenamedLayers original_layers(const Config& config) {
  return modulated_layers(kEmbedders, config.num_double_blocks, config.num_single_blocks);
}

}  // namespace

io::KeyMap original_keys() { return modulated_keys(kEmbedders); }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_modulated(original_layers(config)); }

std::set<std::string> swapped_layers() { return {kLastNorm, kLastNormOfKohya}; }

LayerTable foreign_layers(const Config& config) {
  auto layers = original_layers(config);
  for (const auto& name : swapped_layers()) layers.push_back({name, {"norm_out.linear"}});
  auto table = named_by(layers);
  for (const auto& layer : layers) {
    for (const auto& ours : layer.ours) table["lora_unet_" + with_underscores(ours)] = {ours};
  }
  return table;
}

}  // namespace burnish::models::longcat_image
