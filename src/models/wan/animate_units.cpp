#include "models/wan/animate_units.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"
#include "base/text.h"
#include "models/wan/keys.h"

namespace burnish::models::wan {

namespace {

at::Tensor first_frame(const at::Tensor& clip) { return clip.narrow(2, 0, 1); }

/// The clip's first frame as a frame of latents in front of its own, as the model is drawn with.
pipeline::Unit latents_unit(const std::string& vae, const Encode& encode) {
  return {"encode_image", {"image"}, {"latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor("image"));
            s.write("latents", at::cat({encode(first_frame(clip)).mean_BCHW, encode(clip).mean_BCHW}, 2));
          }};
}

/// What stands behind the noise: of the frame in front its latents, of the clip nothing is known.
pipeline::Unit beside_unit(const std::string& vae, const Encode& encode) {
  return {"encode_first_frame", {"image"}, {"beside_latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor("image"));
            auto latents = at::cat({encode(first_frame(clip)).mean_BCHW, encode(at::zeros_like(clip)).mean_BCHW}, 2);
            auto shape = latents.sizes().vec();
            shape[1] = kMaskChannels;
            auto mask = at::zeros(shape, latents.options());
            mask.select(2, 0).fill_(1);
            s.write("beside_latents", at::cat({mask, latents}, 1));
          }};
}

pipeline::Unit pose_unit(const std::string& vae, const Encode& encode) {
  return {"encode_poses", {kPoseVideo}, {"pose_latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            s.write("pose_latents", encode(as_clip(s.tensor(kPoseVideo))).mean_BCHW);
          }};
}

/// The columns that are read together; true where the run has them.
bool has_its_columns(const ModelOptions& options) {
  const bool poses = options.extra_inputs.contains(kPoseVideo), faces = options.extra_inputs.contains(kFaceVideo);
  if (poses == faces && (!poses || options.references)) return poses;  // without both it goes on from a picture alone
  config_error("models",
               "Wan-Animate reads input_image, {} and {} together, of which this run has some; name all three in extra_inputs, when "
               "drawing give --reference and both clips",
               kPoseVideo, kFaceVideo);
}

}  // namespace

AnimateUnits::AnimateUnits(const ModelOptions& options, Components& components, const Source& source, const Config& dit)
    : options_(options), components_(components), source_(source), dit_(dit) {
  if (!source.entry) return;
  config_ = naming(source.entry->label, [&] { return detect_animate(source.entry->config, source.shapes(), dit); });
  reads_ = has_its_columns(options);
}

std::string AnimateUnits::variant(bool) const { return source_.entry ? "Wan2.2-Animate-14B" : ""; }

std::vector<Further::Part> AnimateUnits::parts(const ComponentNames& dit) const {
  if (!source_.entry) return {};
  auto build = [dit = dit_, config = config_](const std::string& part, const at::TensorOptions& o) {
    return std::make_unique<Animate>(dit, config, o, AnimatePart{.face = part != kAnimateBody, .body = part != kAnimateFace});
  };
  Recipe recipe{.name = kAnimate, .what = "module of Wan-Animate", .source = source_, .build = build};
  recipe.parts = {kAnimateFace, kAnimateBody};
  return {{recipe,
           {.layers = dit.layers,
            .lora_targets = "to_q,to_k,to_v,to_out",
            .high_precision = {"pose_patch_embedding", "motion_encoder\\..*", "face_encoder\\..*"},
            .foreign_layers = foreign_layers(config_, ""),
            .written = written_layers(config_),
            .single_file = {"model.diffusion_model.", animate_keys(std::ssize(config_.channels) - 1)}}}};
}

void AnimateUnits::add_names(Names& names) const {
  if (!reads_) return;
  for (auto input : kAnimateInputs) {
    if (input.square > 0) input.square = config_.face_side();
    names.extra_inputs.push_back(input);
  }
  names.values["pose_latents"] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  names.values["face_tokens"] = {.shape = {-1, -1, config_.num_tokens + 1, dit_.width()}};
}

Animate& AnimateUnits::loaded(const std::string& part) { return static_cast<Animate&>(components_.module(part)); }

pipeline::Unit AnimateUnits::face_unit() {
  return {"encode_faces", {kFaceVideo}, {"face_tokens"}, {kAnimateFace}, [this](pipeline::Scope& s) {
            s.uses(kAnimateFace);
            s.write("face_tokens", loaded(kAnimateFace).face_tokens(as_clip(s.tensor(kFaceVideo)).to(options_.device, options_.dtype)));
          }};
}

void AnimateUnits::add_units(UnitGroups& groups, const Around& around) {
  if (!reads_) return;
  const auto& [dit, vae, encode, image_encoder, see] = around;
  groups.encode_image = {latents_unit(vae, encode)};
  std::erase_if(groups.encode_references, [](const auto& unit) { return contains(unit.writes, "beside_latents"); });
  for (const auto& unit : {beside_unit(vae, encode), pose_unit(vae, encode), face_unit()}) groups.encode_references.push_back(unit);
  auto& denoise = groups.denoise.back();
  denoise.reads.insert(denoise.reads.end(), {"pose_latents", "face_tokens"});
  denoise.models.push_back(kAnimateBody);
}

void AnimateUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!reads_) return;
  scope.uses(kAnimateBody);
  auto& animate = loaded(kAnimateBody);
  auto here = [&](const char* name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  in.added_BDFHW = animate.pose_patches(here("pose_latents"));
  in.hints = animate.hints(here("face_tokens"));
}

}  // namespace burnish::models::wan
