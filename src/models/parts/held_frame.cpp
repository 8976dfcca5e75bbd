#include "models/parts/held_frame.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include "base/input_error.h"

namespace burnish::models {

void GivenAt::add_names(Names& names) const {
  if (is_share()) names.references.given_shares[number_] = share_;
}

void GivenAt::add_to(std::vector<std::string>& reads) const {
  if (is_share()) reads.push_back(number_);
}

bool GivenAt::tell(const pipeline::Scope& s) const { return !is_share() || s.tensor(number_).item<double>() > 0; }

Option given_share_option(const char* name, const std::string& what, const std::string& where) {
  return {.name = name,
          .help = "share of visits at which " + what + " are given, with " + where + "; at the others a clip is learned without them",
          .otherwise = 1.0,
          .elsewhere = "this model is given frames at every visit or at none, leave it out",
          .why_wrong = [](const std::string& option, const OptionValue& value) -> std::string {
            if (std::get<double>(value) > 0) return "";
            return option + " is 0, so that the frames would never be given; take them out of extra_inputs instead";
          },
          .least = 0,
          .most = 1,
          .when_drawing = OptionValue(1.0)};
}

Option first_share_option() { return given_share_option(kFirstShare, "first frames of a clip", "extra_inputs input_image"); }

Option given_frames_option() {
  return {.name = kGivenFrames,
          .help =
              "first frames of a clip that a model is given, with extra_inputs input_image or when drawing --reference, which is a clip "
              "then: 1 and a multiple of the frames of a latent",
          .otherwise = int64_t{1},
          .elsewhere = "this model is given one frame or none, leave it out",
          .least = 1,
          .about = Option::About::references};
}

void check_given_frames(const char* option, int64_t num_frames, int64_t frames_of_latent) {
  const auto below = (num_frames - 1) / frames_of_latent * frames_of_latent + 1;
  if (num_frames != below)
    config_error("models", "{} is {}, and clips of this model have 1 frame and a multiple of {}; the nearest are {} and {}", option,
                 num_frames, frames_of_latent, below, below + frames_of_latent);
}

at::Tensor as_clip(const at::Tensor& image) {
  auto clip = image.dim() == 4 ? image.unsqueeze(2) : image;
  return clip.scalar_type() == at::kByte ? clip.to(at::kFloat).div_(127.5).sub_(1) : clip;
}

at::Tensor frames_in(const pipeline::Scope& s, std::string_view column, const at::Tensor& own_BCHW) {
  const auto& pictures = s.lists(std::string(column));
  std::vector<at::Tensor> frames;
  for (int64_t b = 0; b < own_BCHW.size(0); ++b) {
    const auto& given = pictures.at(static_cast<size_t>(b));
    if (given.size() > 1) data_error("models", "the column '{}' has {} pictures, and one was expected", column, given.size());
    frames.push_back(given.empty() ? own_BCHW[b] : given[0].to(own_BCHW.options()));
  }
  return at::stack(frames);
}

void check_has_more(int64_t num_frames, int64_t num_given) {
  if (num_frames > num_given) return;
  if (num_given > 1)
    config_error("models", "given_frames {} gives the first {} frames of a clip, and this one has {}; give fewer, or clips of more frames",
                 num_given, num_given, num_frames);
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

pipeline::Units held_beginning_units(const std::string& vae, const Encode& encode, int64_t num_frames) {
  pipeline::Unit unit{"encode_first_frames", {"image"}, {"first_latents"}, {vae}, [=](pipeline::Scope& s) {
                        s.uses(vae);
                        const auto& image = s.tensor("image");
                        check_has_more(image.dim() == 5 ? image.size(2) : 1, num_frames);
                        s.write("first_latents", encode(as_clip(image.narrow(2, 0, num_frames))).mean_BCHW);
                      }};
  unit.settings = std::to_string(num_frames) + " given frames";
  return {unit};
}

pipeline::Units held_frame_weights(int64_t num_latents, const GivenAt& given) {
  std::vector<std::string> reads{"latents"};
  given.add_to(reads);
  return {{"weigh_frames", reads, {"loss_map"}, {}, [=](pipeline::Scope& s) {
             const auto& latents = s.tensor("latents");
             check_has_more(latents.size(2));
             auto map = at::ones({latents.size(0), 1, latents.size(2), 1, 1}, latents.options());
             if (given.tell(s)) map.narrow(2, 0, num_latents).fill_(0);
             s.write("loss_map", map);
           }}};
}

at::Tensor with_first(const at::Tensor& noisy, const at::Tensor& first) {
  const auto count = first.size(2);
  return at::cat({first.to(noisy.options()), noisy.narrow(2, count, noisy.size(2) - count)}, 2);
}

at::Tensor leading_to_first(const at::Tensor& prediction, const at::Tensor& noisy, const at::Tensor& first, const at::Tensor& sigma_B) {
  auto sigma = sigma_B.to(prediction.device(), at::kFloat).view({-1, 1, 1, 1, 1});
  auto velocity = (noisy.narrow(2, 0, first.size(2)).to(prediction.device()) - first.to(prediction.device())) / sigma;
  return with_first(prediction, velocity);
}

}  // namespace burnish::models
