#pragma once
#include "io/key_map.h"

namespace burnish::models::skeleton {

/// Every number of the architecture. Defaults are those of the model that this example makes up.
struct Config {
  int64_t encoder_width = 24;  ///< of the frozen text encoder
  int64_t width = 16;          ///< of the denoiser, and of what the projector makes of a text
  int64_t num_blocks = 2;      ///< of the denoiser
  int64_t latent_channels = 4;
  int64_t patch = 4;         ///< pixels to a side of what becomes one latent
  int64_t text_length = 12;  ///< bytes of a caption that are read
};

/// Reads the sizes from tensor shapes (our names); a data Error when they contradict each other.
Config detect(const io::Shapes& shapes);

}  // namespace burnish::models::skeleton
