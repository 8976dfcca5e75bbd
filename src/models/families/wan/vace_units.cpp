#include "models/families/wan/vace_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "base/input_error.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/vace_scale.h"

namespace burnish::models::wan {

namespace {

/// Pixels of the mask along a side of a latent, each a channel.
constexpr int64_t kMaskSide = 8;

/// The module beside a transformer.
std::string vace_of(const std::string& dit) { return dit == "dit" ? kVace : kVace + "_2"; }

/// The mask [B, 3, F, H, W] in [-1, 1] as a channel for each of the pixels and as many frames as latents have: [B, 64, f, h, w] in [0, 1].
at::Tensor mask_channels(const at::Tensor& mask_BCFHW, int64_t frames) {
  auto gray = (mask_BCFHW.select(1, 0) + 1) / 2;
  auto pixels = gray.unflatten(3, {-1, kMaskSide}).unflatten(2, {-1, kMaskSide});  // [B, F, h, 8, w, 8]
  auto channels = pixels.permute({0, 3, 5, 2, 4, 1}).flatten(1, 2);                // [B, 64, h, w, F]
  auto shape = channels.sizes().vec();
  // Of the frames that a latent stands for, the one in the middle speaks for all.
  std::vector<at::Tensor> taken;
  for (int64_t f = 0; f < frames; ++f) taken.push_back(channels.select(4, ((2 * f + 1) * shape[4]) / (2 * frames)));
  return at::stack(taken, 2);
}

/// Makes what is read of a clip and a mask: the clip outside the mask, the clip inside it, gray elsewhere, and the mask. [B, K, f, h, w].
at::Tensor clip_context(const at::Tensor& clip, const at::Tensor& mask, const Encode& encode) {
  auto white = (mask > 0).to(clip.scalar_type());
  auto outside = encode(clip * (1 - white)).mean_BCHW, inside = encode(clip * white).mean_BCHW;
  return at::cat({outside, inside, mask_channels(mask, outside.size(2)).to(outside.options())}, 1);
}

/// A picture as a frame of latents.
at::Tensor picture_latents(pipeline::Scope& s, const Encode& encode) {
  return encode(as_clip(picture_of(s, kVaceReference).unsqueeze(0))).mean_BCHW;
}

/// Makes the unit from image to latents, with the reference picture's in front of the clip's.
pipeline::Unit latents_unit(const std::string& vae, const Encode& encode) {
  return {"encode_image", {"image", kVaceReference}, {"latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto picture = picture_latents(s, encode);
            s.write("latents", at::cat({picture, encode(as_clip(s.tensor("image"))).mean_BCHW}, 2));
          }};
}

/// Tells whether the columns have VACE read something.
bool has_its_columns(const std::set<std::string>& columns) {
  for (const char* column : {kVaceMask, kVaceReference}) {
    if (columns.contains(column) && !columns.contains(kVaceVideo))
      config_error("models", "extra_inputs names {}, which is read together with {}; name both", column, kVaceVideo);
  }
  return columns.contains(kVaceVideo);
}

}  // namespace

VaceUnits::VaceUnits(const ModelOptions& options, Components& components, const Found& found, const Config& dit)
    : SideModule(options, components), sources_(found.vace), dit_(dit) {
  for (const auto& vace : found.vace) {
    if (!vace.entry || !found.has_dit()) continue;
    config_ = naming(vace.entry->label, [&] { return detect_vace(vace.entry->config, vace.shapes(), dit); });
  }
  reads_ = has_its_columns(options.extra_inputs) && (found.has_vace() || !found.has_dit());
  if (!found.has_dit()) return;
  if (reads_) config_.scales = vace_scales(options, config_.num_blocks);
  else if (scales_vace(options))
    config_error("models",
                 "vace_scale is how much VACE adds, which reads nothing in this run; name vace_video in extra_inputs, or take it out");
}

std::string VaceUnits::variant(bool has_experts) const {
  if (!sources_[0].entry && !sources_[1].entry) return "";
  return has_experts ? "Wan2.2-VACE-Fun-A14B" : dit_.width() == 5120 ? "Wan2.1-VACE-14B" : "Wan2.1-VACE-1.3B";
}

std::vector<NamedRecipe> VaceUnits::components_beside(const ComponentNames& dit, size_t number) const {
  if (!reads_ && !sources_[0].entry && !sources_[1].entry) return {};
  auto high_precision = dit.high_precision;
  high_precision.emplace_back("vace_patch_embedding");
  auto build = [dit = dit_, config = config_](const std::string&, const at::TensorOptions& o) {
    return std::make_unique<Vace>(dit, config, o);
  };
  const bool is_second = number > 0;
  return {{{.name = vace_of(is_second ? "dit_2" : "dit"), .what = "module of VACE", .source = sources_.at(number), .build = build},
           {.layers = dit.layers,
            .lora_targets = dit.lora_targets,
            .high_precision = high_precision,
            .foreign_layers = foreign_layers(config_, in_both_of(is_second)),
            .written = written_layers(config_),
            .single_file = {"model.diffusion_model.", original_keys()},
            .aliases = target_names}}};
}

void VaceUnits::add_names(Names& names) const {
  if (sources_[0].entry || sources_[1].entry) names.references.expected = kVaceVideo;
  if (!reads_) return;
  names.values["vace_context"] = {.shape = {-1, config_.in_channels, -1, -1, -1}};
  for (const auto& input : kVaceInputs) {
    if (has(input.name)) names.extra_inputs.push_back(input);
  }
}

pipeline::Unit VaceUnits::context_unit(const std::string& vae, const Encode& encode) const {
  const bool masks = has(kVaceMask), refers = has(kVaceReference);
  std::vector<std::string> reads{kVaceVideo};
  if (masks) reads.emplace_back(kVaceMask);
  if (refers) reads.emplace_back(kVaceReference);
  return {"encode_vace", reads, {"vace_context"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor(kVaceVideo));
            auto context = clip_context(clip, masks ? as_clip(s.tensor(kVaceMask)) : at::ones_like(clip), encode);
            if (refers) {
              auto picture = picture_latents(s, encode);
              auto shape = picture.sizes().vec();
              shape[1] = context.size(1) - shape[1];
              context = at::cat({at::cat({picture, at::zeros(shape, picture.options())}, 1), context}, 2);
            }
            s.write("vace_context", context);
          }};
}

void VaceUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!reads_) return;
  add_encoding(groups, {context_unit(parts.vae, parts.encode)});
  groups.denoise.back().models.push_back(vace_of(parts.dit));
  if (has(kVaceReference)) groups.encode_image = {latents_unit(parts.vae, parts.encode)};
}

void VaceUnits::give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) {
  if (!reads_) return;
  const auto vace = vace_of(dit);
  scope.uses(vace);
  in.hints = loaded<Vace>(vace).hints(here(scope, "vace_context"));
}

}  // namespace burnish::models::wan
