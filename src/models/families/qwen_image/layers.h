#pragma once
#include "base/column.h"
#include "models/model/latent_space.h"
#include "models/parts/shared_units.h"

// What Qwen-Image-Layered has beside Qwen-Image: pictures that come apart into layers.
namespace burnish::models::qwen_image {

/// The column of the picture that is taken apart, as DiffSynth-Studio calls it (pipelines/qwen_image.py). A row that leaves it empty, or a
/// run that does not name it, takes the first layer, which is the whole picture.
inline constexpr const char* kWholeColumn = "layer_input_image";

/// The number of layers in a row's picture, which data with layers are held to.
inline const Column kLayerCount{
    .name = "layer_num", .is = Column::Is::numbers, .words = {"Qwen-Image-Layered", "1"}, .given = Column::Given::by_rows};

/// Turns a space of pictures into one of their layers, or of those behind the first, which is the whole picture.
void add_layers(LatentSpace& space, bool without_whole);

/// Returns the shift of the noise when drawing: by the tokens of one layer (diffusers: pipeline_qwenimage_layered.py).
double layered_mu(int64_t num_image_tokens, int64_t num_steps);

/// Encodes layers without the first.
Encode encoding_behind_whole(const Encode& encode);

/// Makes the unit from layers, and where rows may name another whole picture from reference_images, to whole_latents [B, C, h, w].
pipeline::Units whole_picture_units(const std::string& vae, const Encode& encode, bool from_column);

}  // namespace burnish::models::qwen_image
