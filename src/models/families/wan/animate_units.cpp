#include "models/families/wan/animate_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/input_error.h"
#include "base/text.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/keys.h"
#include "models/model/negative_prompt.h"

namespace burnish::models::wan {

namespace {

/// The value of a face's tokens.
const std::string kFaces = "seen_faces";

at::Tensor first_frame(const at::Tensor& clip) { return clip.narrow(2, 0, 1); }

/// The clip's first frame as a frame of latents in front of its own, as the model is drawn with.
pipeline::Unit latents_unit(const std::string& vae, const Encode& encode) {
  return {"encode_image", {"image"}, {"latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor("image"));
            s.write("latents", at::cat({encode(first_frame(clip)).mean_BCHW, encode(clip).mean_BCHW}, 2));
          }};
}

/// Holds what is known of the clip itself, and where: 1 in [B, F, h, w], by pixels that are as far apart as latents.
struct KnownFrames {
  at::Tensor clip_BCFHW, mask_BFHW;
};

/// Nothing, or what is outside of the mask.
KnownFrames kept_of(const pipeline::Scope& s, const at::Tensor& clip, bool keeps) {
  auto every_latent = [](const at::Tensor& x) { return x.slice(2, 0, std::nullopt, kSide).slice(3, 0, std::nullopt, kSide); };
  if (!keeps) return {at::zeros_like(clip), at::zeros_like(every_latent(clip.select(1, 0)))};
  return {as_clip(s.tensor(kKeptVideo)), every_latent((1 - as_clip(s.tensor(kKeptMask)).select(1, 0)) / 2)};
}

/// Puts the frames from which the clip goes on where it begins.
void begin_with(const pipeline::Scope& s, KnownFrames& known) {
  const auto& pictures = s.lists(kPreviousFrames);
  const auto num_frames = known.clip_BCFHW.size(2);
  known = {known.clip_BCFHW.clone(), known.mask_BFHW.clone()};
  for (int64_t b = 0; b < known.clip_BCFHW.size(0); ++b) {
    const auto& frames = pictures.at(static_cast<size_t>(b));
    const auto count = std::ssize(frames);
    if (count >= num_frames)
      data_error("models", "the column '{}' has {} frames, and the clip that goes on from them {}; give fewer", kPreviousFrames, count,
                 num_frames);
    for (int64_t f = 0; f < count; ++f) known.clip_BCFHW[b].select(1, f).copy_(frames[static_cast<size_t>(f)]);
    known.mask_BFHW[b].narrow(0, 0, count).fill_(1);
  }
}

/// The mask as the channels of frames of latents: the first of a clip stands for four.
at::Tensor mask_channels(const at::Tensor& mask_BFHW) {
  auto first = mask_BFHW.narrow(1, 0, 1).expand({-1, kMaskChannels - 1, -1, -1});
  return at::cat({first, mask_BFHW}, 1).unflatten(1, {-1, kMaskChannels}).transpose(1, 2);
}

/// Returns what stands behind the noise: of the frame in front its latents, of the clip what is known of it.
pipeline::Unit beside_unit(const std::set<std::string>& columns, const std::string& vae, const Encode& encode) {
  const bool keeps = columns.contains(kKeptVideo), goes_on = columns.contains(kPreviousFrames);
  std::vector<std::string> reads{"image"};
  if (keeps) reads.insert(reads.end(), {kKeptVideo, kKeptMask});
  if (goes_on) reads.emplace_back(kPreviousFrames);
  return {"encode_first_frame", reads, {"beside_latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor("image"));
            auto known = kept_of(s, clip, keeps);
            if (goes_on) begin_with(s, known);
            auto latents = at::cat({encode(first_frame(clip)).mean_BCHW, encode(known.clip_BCFHW).mean_BCHW}, 2);
            auto mask = mask_channels(known.mask_BFHW).to(latents.options());
            s.write("beside_latents", at::cat({at::cat({at::ones_like(mask.narrow(2, 0, 1)), mask}, 2), latents}, 1));
          }};
}

/// The tokens of a face, of samples that guidance leads away from those of a black one: [B, 1 + f, N, D] of one frame more.
at::Tensor seen_faces(const at::Tensor& faces_BFND, const at::Tensor& is_negative_B1) {
  const auto num_frames = faces_BFND.size(1) - 1;
  auto face = faces_BFND.narrow(1, 0, num_frames), black = faces_BFND.narrow(1, num_frames, 1).expand({-1, num_frames - 1, -1, -1});
  auto blacked = at::cat({face.narrow(1, 0, 1), black}, 1);  // the frame in front has no face
  return at::where(is_negative_B1.view({-1, 1, 1, 1}) > 0, blacked, face);
}

pipeline::Unit pose_unit(const std::string& vae, const Encode& encode) {
  return {"encode_poses", {kPoseVideo}, {"pose_latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            s.write("pose_latents", encode(as_clip(s.tensor(kPoseVideo))).mean_BCHW);
          }};
}

/// The columns that are read together; true where the run has them.
bool has_its_columns(const ModelOptions& options) {
  const bool keeps = options.extra_inputs.contains(kKeptVideo);
  if (keeps != options.extra_inputs.contains(kKeptMask))
    config_error("models", "extra_inputs names {}, which is read together with {}; name both", keeps ? kKeptVideo : kKeptMask,
                 keeps ? kKeptMask : kKeptVideo);
  const bool poses = options.extra_inputs.contains(kPoseVideo), faces = options.extra_inputs.contains(kFaceVideo);
  const bool more = keeps || options.extra_inputs.contains(kPreviousFrames);
  if (poses == faces && (poses ? options.references.are_read : !more)) return poses;  // without all it goes on from a picture alone
  config_error("models",
               "Wan-Animate reads input_image, {} and {} together, of which this run has some; name all three in extra_inputs, when "
               "drawing give --reference and both clips",
               kPoseVideo, kFaceVideo);
}

}  // namespace

AnimateUnits::AnimateUnits(const ModelOptions& options, Components& components, const Source& source, const Config& dit)
    : SideModule(options, components), source_(source), dit_(dit) {
  if (!source.entry) return;
  config_ = naming(source.entry->label, [&] { return detect_animate(source.entry->config, source.shapes(), dit); });
  reads_ = has_its_columns(options);
}

std::string AnimateUnits::variant(bool) const { return source_.entry ? "Wan2.2-Animate-14B" : ""; }

std::vector<NamedRecipe> AnimateUnits::components(const ComponentNames& dit) const {
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
  if (source_.entry) names.references.expected = kPoseVideo;
  if (!reads_) return;
  for (auto input : kAnimateInputs) {
    if (!has(input.name)) continue;
    if (input.fit == Column::Fit::square) input.side = config_.face_side();
    names.extra_inputs.push_back(input);
  }
  names.values["pose_latents"] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  names.values[kFaces] = {.shape = {-1, -1, config_.num_tokens + 1, dit_.width()}};
  names.values[kIsNegative] = {.shape = {-1, 1}, .of_prompt = true};
}

/// The tokens of a face, and behind them those of a black one, which are the same in every frame.
pipeline::Unit AnimateUnits::face_unit() {
  return {"encode_faces", {kFaceVideo}, {kFaces}, {kAnimateFace}, [this](pipeline::Scope& s) {
            s.uses(kAnimateFace);
            auto& animate = loaded<Animate>(kAnimateFace);
            const auto faces = as_clip(s.tensor(kFaceVideo)).to(options_.device, options_.dtype);
            const auto black = animate.face_tokens(at::full_like(first_frame(faces), -1));
            s.write(kFaces, at::cat({animate.face_tokens(faces), black.narrow(1, 1, 1)}, 1));
          }};
}

void AnimateUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!reads_) return;
  const auto& vae = parts.vae;
  const auto& encode = parts.encode;
  groups.encode_image = {latents_unit(vae, encode)};
  std::erase_if(groups.encode_references, [](const auto& unit) { return contains(unit.writes, "beside_latents"); });
  for (const auto& unit : {beside_unit(options_.extra_inputs, vae, encode), pose_unit(vae, encode), face_unit()})
    groups.encode_references.push_back(unit);
  groups.encode_prompt.push_back(mark_prompt_unit());
  auto& denoise = groups.denoise.back();
  denoise.reads.insert(denoise.reads.end(), {"pose_latents", kFaces, kIsNegative});
  denoise.models.push_back(kAnimateBody);
}

void AnimateUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!reads_) return;
  scope.uses(kAnimateBody);
  auto& animate = loaded<Animate>(kAnimateBody);
  in.added_BDFHW = animate.pose_patches(here(scope, "pose_latents"));
  in.hints = animate.hints(seen_faces(here(scope, kFaces), here(scope, kIsNegative)));
}

}  // namespace burnish::models::wan
