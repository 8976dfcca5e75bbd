#include "models/families/moss_image/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::moss_image {

LayerTable foreign_layers(const Config& config) {
  RenamedLayers layers;
  add_blocks(layers, {{"proj.qkv", {"proj.q", "proj.k", "proj.v"}}}, "layers.", "layers.", config.num_layers);
  return named_by(layers);
}

}  // namespace burnish::models::moss_image
