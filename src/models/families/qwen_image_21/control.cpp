#include "models/families/qwen_image_21/control.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "base/input_error.h"
#include "models/parts/find_components.h"

namespace burnish::models::qwen_image_21 {

namespace {

/// MLPs of this form below `control_blocks` have no other family's ControlNets.
constexpr const char* kControlMark = "control_blocks.0.img_mlp.gate_layer.weight";

/// control_latents, where `controls` and `inpaints` tell what the run gives.
at::Tensor latents_that_control(pipeline::Scope& s, const ModelParts& parts, bool controls, bool inpaints) {
  at::Tensor control, kept, inpainted;
  if (controls) control = parts.latents_of(picture_of(s, kControlColumn).unsqueeze(0));
  if (inpaints) {
    const auto kept_HW = 1 - white_of(picture_of(s, kMaskColumn));
    inpainted = parts.latents_of((picture_of(s, kInpaintedColumn) * kept_HW).unsqueeze(0));
    kept = every_nth(kept_HW, 0, parts.downsampling).unsqueeze(0).unsqueeze(0).to(inpainted.options());
  }
  if (!controls) control = at::zeros_like(inpainted);
  if (!inpaints) {
    inpainted = at::zeros_like(control);
    kept = inpainted.narrow(1, 0, 1);
  }
  return at::cat({control, kept, inpainted}, 1);
}

}  // namespace

Source find_control(const ModelFiles& files) { return find_marked(files, kControlMark); }

Control::Control(const ModelOptions& options, Components& components, const ModelFiles& files, const Config& dit, bool has_dit)
    : SideModule(options, components), dit_(dit), source_(find_control(files)) {
  if (has(kMaskColumn) != has(kInpaintedColumn))
    config_error("models", "extra_inputs names {}, which is read together with {}; name both",
                 has(kMaskColumn) ? kMaskColumn : kInpaintedColumn, has(kMaskColumn) ? kInpaintedColumn : kMaskColumn);
  if (!source_.entry) return;
  const auto& label = source_.entry->label;
  config_ = naming(label, [&] { return ControlNet::detect(source_.shapes(), dit); });
  const auto& c = config_.blocks;
  const auto expected = 2 * dit.in_channels + 1;
  const bool fits = c.in_channels == expected && c.width() == dit.width() && c.head_dim == dit.head_dim && c.hidden == dit.hidden &&
                    (c.num_layers - 1) * config_.every < dit.num_layers;
  if (has_dit && !fits)
    data_error(
        "models",
        "{}: a ControlNet of {} blocks, {} wide with heads of {} and MLPs of {}, for tokens of {} numbers, and {} wide with heads of "
        "{} and MLPs of {}, for tokens of {}, and as many blocks as lie evenly beside {} were expected; it belongs to another model",
        label, c.num_layers, c.width(), c.head_dim, c.hidden, c.in_channels, dit.width(), dit.head_dim, dit.hidden, expected,
        dit.num_layers);
}

std::vector<NamedRecipe> Control::components(const ComponentNames&) const {
  if (!source_.entry) return {};
  auto names = plain_names(kControlNet);
  names.high_precision = {"control_img_in", ".*\\.before_proj", ".*\\.after_proj"};
  return {{side_recipe<ControlNet>(kControlNet, "ControlNet", source_, config_), names}};
}

void Control::add_names(Names& names) const {
  if (!source_.entry) return;
  for (const auto& input : kExtraInputs) {
    if (has(input.name)) names.extra_inputs.push_back(input);
  }
}

void Control::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!is_read()) return;
  pipeline::Unit unit{"encode_control", {}, {"control_latents"}, {parts.vae}};
  for (const auto& input : kExtraInputs) {
    if (has(input.name)) unit.reads.emplace_back(input.name);
  }
  unit.run = [parts, controls = has(kControlColumn), inpaints = has(kMaskColumn)](pipeline::Scope& s) {
    s.uses(parts.vae);
    s.write("control_latents", latents_that_control(s, parts, controls, inpaints));
  };
  add_encoding(groups, {unit});
  groups.denoise.back().models.push_back(kControlNet);
}

void Control::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!is_read()) return;
  scope.uses(kControlNet);
  in.control = &loaded<ControlNet>(kControlNet);
  in.control_BNHW = scope.tensor("control_latents").to(options_.device);
}

}  // namespace burnish::models::qwen_image_21
