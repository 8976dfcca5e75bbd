#include "models/parts/held_frame.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include "base/input_error.h"

namespace burnish::models {

at::Tensor as_clip(const at::Tensor& image) {
  auto clip = image.dim() == 4 ? image.unsqueeze(2) : image;
  return clip.scalar_type() == at::kByte ? clip.to(at::kFloat).div_(127.5).sub_(1) : clip;
}

void check_has_more(int64_t num_frames) {
  if (num_frames == 1)
    config_error("models",
                 "extra_inputs input_image gives a clip's first frame, and this one has no other that could be predicted; take it out, or "
                 "give clips of more frames");
}

pipeline::Units held_frame_units(const std::string& vae, const Encode& encode, const std::vector<std::string>& reads,
                                 const FirstFrames& frames) {
  std::vector<std::string> all{"image"};
  all.insert(all.end(), reads.begin(), reads.end());
  return {{"encode_first_frame", all, {"first_latents"}, {vae}, [=](pipeline::Scope& s) {
             s.uses(vae);
             const auto& image = s.tensor("image");
             auto own = as_clip(image.dim() == 5 ? image.narrow(2, 0, 1) : image);
             s.write("first_latents", encode(frames ? frames(s, own.select(2, 0)).unsqueeze(2) : own).mean_BCHW);
           }}};
}

pipeline::Units held_frame_weights() {
  return {{"weigh_frames", {"latents"}, {"loss_map"}, {}, [](pipeline::Scope& s) {
             const auto& latents = s.tensor("latents");
             check_has_more(latents.size(2));
             auto map = at::ones({latents.size(0), 1, latents.size(2), 1, 1}, latents.options());
             map.select(2, 0).fill_(0);
             s.write("loss_map", map);
           }}};
}

at::Tensor with_first(const at::Tensor& noisy, const at::Tensor& first) {
  return at::cat({first.to(noisy.options()), noisy.narrow(2, 1, noisy.size(2) - 1)}, 2);
}

at::Tensor leading_to_first(const at::Tensor& prediction, const at::Tensor& noisy, const at::Tensor& first, const at::Tensor& sigma_B) {
  auto sigma = sigma_B.to(prediction.device(), at::kFloat).view({-1, 1, 1, 1, 1});
  auto velocity = (noisy.narrow(2, 0, 1).to(prediction.device()) - first.to(prediction.device())) / sigma;
  return with_first(prediction, velocity);
}

}  // namespace burnish::models
