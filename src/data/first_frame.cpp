#include "data/first_frame.h"

#include "data/clip.h"
#include "data/image.h"

namespace burnish::data {

at::Tensor first_frame(const std::filesystem::path& file) {
  return is_clip_alone(file) ? decode_frames(file, {{0, 1}})[0] : decode_image(file);
}

}  // namespace burnish::data
