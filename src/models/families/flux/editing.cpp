#include "models/families/flux/editing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "base/input_error.h"
#include "base/text.h"
#include "models/parts/siglip.h"

namespace burnish::models::flux {

namespace {

using pipeline::Scope;

/// Pixels along a side of what one channel of Fill's mask stands for.
constexpr int64_t kFillSide = 8;
/// The weight of FLEX.2's control picture, as DiffSynth-Studio draws with it.
constexpr double kFlexStrength = 0.5;

/// Channels of Fill: the latents of what is kept, and the mask itself.
at::Tensor fill_channels(Scope& s, const ModelParts& parts) {
  const auto& mask_3HW = picture_of(s, "flux_fill_mask");
  auto luma = mask_3HW[0] * 0.299 + mask_3HW[1] * 0.587 + mask_3HW[2] * 0.114;
  auto mask_HW = (luma >= 0).to(mask_3HW.scalar_type());
  auto kept = picture_of(s, "flux_fill_image") * (1 - mask_HW);
  auto latents = parts.latents_of(kept.unsqueeze(0));
  return at::cat({latents, blocks_as_channels(mask_HW, parts.downsampling).unsqueeze(0).to(latents.options())}, 1);
}

/// Channels of FLEX.2: the latents of what is kept, the mask, and the latents of a control picture.
at::Tensor flex_channels(Scope& s, const ModelParts& parts, const std::vector<std::string>& columns) {
  auto latents_of = [&](const char* column) {
    return contains(columns, column) ? parts.latents_of(picture_of(s, column).unsqueeze(0)) : at::Tensor();
  };
  auto kept = latents_of("flex_inpaint_image"), control = latents_of("flex_control_image");
  auto any = kept.defined() ? kept : control;
  at::Tensor mask;
  if (contains(columns, "flex_inpaint_mask")) {
    const auto& picture = picture_of(s, "flex_inpaint_mask");
    auto small = resized_bicubic(picture, picture.size(1) / parts.downsampling, picture.size(2) / parts.downsampling);
    mask = ((small.narrow(0, 0, 1) + 1) / 2).unsqueeze(0);
  } else {
    mask = at::ones({1, 1, any.size(2), any.size(3)});
  }
  if (!any.defined()) any = parts.latents_of(picture_of(s, "flex_inpaint_mask").unsqueeze(0));
  mask = mask.to(any.options());
  kept = kept.defined() ? kept * (1 - mask) : at::zeros_like(any);
  return at::cat({kept, mask, control.defined() ? control * kFlexStrength : at::zeros_like(any)}, 1);
}

}  // namespace

EditingUnits::EditingUnits(const ModelOptions& options, Components& components, const Config& dit, bool has_dit)
    : SideModule(options, components, dit, has_dit) {
  if (dit.in_channels == 2 * dit.out_channels + 4 * kFillSide * kFillSide) editing_ = Editing::fill;
  else if (dit.in_channels == 3 * dit.out_channels + 4) editing_ = Editing::flex;
  else if (dit.in_channels != dit.out_channels)
    data_error("models",
               "the transformer takes {} channels for {} that it gives; those of FLUX.1, of Fill ({}) and of FLEX.2 ({}) are known",
               dit.in_channels, dit.out_channels, 2 * dit.out_channels + 4 * kFillSide * kFillSide, 3 * dit.out_channels + 4);
  check_pairs({{"flux_fill_image", "flux_fill_mask"}, {"flux_fill_mask", "flux_fill_image"}});
  const auto& columns = options_.extra_inputs;
  if (options_.references && (editing_ != Editing::none || !columns.empty()))
    config_error("models", "reference pictures are read by FLUX.1 Kontext and Step1X-Edit alone, and not beside {}; take one of them out",
                 columns.empty() ? "the channels that this transformer edits by" : *columns.begin());
}

bool EditingUnits::can_read(std::string_view column) const {
  if (column.starts_with("flux_fill_")) return !has_dit_ || editing_ == Editing::fill;
  return column.starts_with("flex_") && (!has_dit_ || editing_ == Editing::flex);
}

void EditingUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  pipeline::Units units;
  if (fills())
    units.push_back({"encode_fill", {"flux_fill_image", "flux_fill_mask"}, {"further_channels"}, {parts.vae}, [parts](Scope& s) {
                       s.uses(parts.vae);
                       s.write("further_channels", fill_channels(s, parts));
                     }});
  if (flexes()) {
    std::vector<std::string> columns;
    for (const char* column : {"flex_inpaint_image", "flex_inpaint_mask", "flex_control_image"}) {
      if (has(column)) columns.emplace_back(column);
    }
    units.push_back({"encode_flex", columns, {"further_channels"}, {parts.vae}, [parts, columns](Scope& s) {
                       s.uses(parts.vae);
                       s.write("further_channels", flex_channels(s, parts, columns));
                     }});
  }
  groups.encode_references.insert(groups.encode_references.end(), units.begin(), units.end());
  if (!units.empty()) groups.denoise.back().reads.emplace_back("further_channels");
}

at::Tensor EditingUnits::behind_noise(Scope& scope, const at::Tensor& noisy) {
  if (fills() || flexes()) return scope.tensor("further_channels").to(noisy.options());
  auto B = noisy.size(0), h = noisy.size(2), w = noisy.size(3);
  auto nothing = at::zeros_like(noisy);
  auto all = [&](int64_t channels) { return at::ones({B, channels, h, w}, noisy.options()); };
  if (editing_ == Editing::fill) return at::cat({nothing, all((dit_.in_channels - 2 * dit_.out_channels) / 4)}, 1);
  if (editing_ == Editing::flex) return at::cat({nothing, all(1), nothing}, 1);
  return {};
}

}  // namespace burnish::models::flux
