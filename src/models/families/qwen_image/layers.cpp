#include "models/families/qwen_image/layers.h"

#include <ATen/ops/stack.h>

#include <cmath>

namespace burnish::models::qwen_image {

void add_layers(LatentSpace& space, bool without_whole) {
  space.frames_step = 1;
  space.first_frames = without_whole ? 2 : 1;
  space.has_layers = true;
}

double layered_mu(int64_t num_image_tokens, int64_t) {
  constexpr double kBaseTokens = 256;
  return std::sqrt(static_cast<double>(num_image_tokens) / kBaseTokens);
}

Encode encoding_behind_whole(const Encode& encode) {
  return [encode](const at::Tensor& image_BCFHW) { return encode(image_BCFHW.narrow(2, 1, image_BCFHW.size(2) - 1)); };
}

pipeline::Units whole_picture_units(const std::string& vae, const Encode& encode, bool from_column) {
  std::vector<std::string> reads{"image"};
  if (from_column) reads.emplace_back("reference_images");
  return {{"encode_whole", reads, {"whole_latents"}, {vae}, [=](pipeline::Scope& s) {
             s.uses(vae);
             const auto& image = s.tensor("image");
             std::vector<at::Tensor> wholes;
             for (int64_t b = 0; b < image.size(0); ++b) {
               auto own = image.dim() == 5 ? image[b].select(1, 0) : image[b];
               const auto given = from_column ? s.lists("reference_images").at(static_cast<size_t>(b)) : std::vector<at::Tensor>();
               wholes.push_back(given.empty() ? own : given[0].to(own.options()));
             }
             s.write("whole_latents", encode(at::stack(wholes)).mean_BCHW.squeeze(2));
           }}};
}

}  // namespace burnish::models::qwen_image
