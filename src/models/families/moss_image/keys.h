#pragma once
#include "models/families/moss_image/config.h"
#include "models/model/names.h"

namespace burnish::models::moss_image {

/// Returns the names of layers in adapters that have query, key and value as one. All other layers have our names in every program.
LayerTable foreign_layers(const Config& config);

}  // namespace burnish::models::moss_image
