#include "models/families/flux/control_units.h"

#include <ATen/ops/full.h>

#include "base/input_error.h"

namespace burnish::models::flux {

using pipeline::Scope;
using pipeline::Unit;

ControlUnits::ControlUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit)
    : SideModule(options, components, dit, has_dit), source_(found.controlnet), face_source_(found.face_projector) {
  if (source_.entry) config_ = read_named(source_, detect_control);
  if (face_source_.entry) face_config_ = naming(face_source_.entry->label, [&] { return FaceProjector::detect(face_source_.shapes()); });
  check_columns();
  check_sizes();
}

void ControlUnits::check_columns() const {
  if (has("controlnet_image") && source_.entry) {
    const auto& label = source_.entry->label;
    if (inpaints() && !has("controlnet_inpaint_mask"))
      config_error("models", "the ControlNet {} inpaints; name controlnet_inpaint_mask too", label);
    if (config_.num_modes > 0 && !has("controlnet_processor_id"))
      config_error("models", "the ControlNet {} tells {} kinds of control apart; name controlnet_processor_id too", label,
                   config_.num_modes);
  }
  check_pairs({{"controlnet_inpaint_mask", "controlnet_image"},
               {"controlnet_processor_id", "controlnet_image"},
               {"infinityou_id_image", "controlnet_image"},
               {"infinityou_guidance", "infinityou_id_image"}});
}

void ControlUnits::check_sizes() const {
  if (source_.entry) {
    const auto& trunk = config_.trunk;
    check_size(source_, "width", trunk.width(), dit_.width());
    check_size(source_, "number of input channels", trunk.in_channels, dit_.out_channels);
    check_size(source_, "width of texts", trunk.joint_attention_dim, dit_.joint_attention_dim);
    check_size(source_, "width of pooled texts", trunk.pooled_projection_dim, dit_.pooled_projection_dim);
    check_size(source_, "number of control channels", config_.control_channels, dit_.out_channels + (inpaints() ? 4 : 0));
  }
  if (face_source_.entry) check_size(face_source_, "width of texts", face_config_.width, dit_.joint_attention_dim);
}

bool ControlUnits::can_read(std::string_view column) const {
  if (column == "controlnet_inpaint_mask") return source_.entry && inpaints();
  if (column == "controlnet_processor_id") return config_.num_modes > 0;
  if (column.starts_with("controlnet_")) return source_.entry != nullptr;
  return column.starts_with("infinityou_") && face_source_.entry;
}

std::vector<NamedRecipe> ControlUnits::components(const ComponentNames& dit) const {
  std::vector<NamedRecipe> all;
  if (source_.entry) {
    auto names = plain_names(kControlNet);
    names.high_precision = dit.high_precision;
    for (const char* more : {"controlnet_x_embedder", "controlnet_(single_)?blocks\\..*"}) names.high_precision.emplace_back(more);
    all.push_back({side_recipe<ControlNet>(kControlNet, "ControlNet", source_, config_), names});
  }
  if (face_source_.entry)
    all.push_back({side_recipe<FaceProjector>(kFaceProjector, "image projector", face_source_, face_config_), plain_names(kFaceProjector)});
  return all;
}

pipeline::Units ControlUnits::picture_units(const ModelParts& parts) const {
  const bool has_mask = has("controlnet_inpaint_mask");
  Unit unit{"encode_control", {"controlnet_image"}, {"control_latents"}, {parts.vae}};
  if (has_mask) unit.reads.emplace_back("controlnet_inpaint_mask");
  unit.run = [parts, has_mask](Scope& s) {
    s.uses(parts.vae);
    auto mask = has_mask ? picture_of(s, "controlnet_inpaint_mask") : at::Tensor();
    s.write("control_latents", control_latents(picture_of(s, "controlnet_image"), mask, parts));
  };
  pipeline::Units units{unit};
  if (has("controlnet_processor_id"))
    units.push_back({"read_control_mode", {"controlnet_processor_id"}, {"control_mode"}, {}, [count = config_.num_modes](Scope& s) {
                       s.write("control_mode", at::full({1}, control_mode(s.text("controlnet_processor_id"), count), at::kLong));
                     }});
  return units;
}

pipeline::Units ControlUnits::face_units() {
  pipeline::Units units;
  if (has("infinityou_id_image"))
    units.push_back({"encode_face", {"infinityou_id_image"}, {"face_text"}, {kFaceProjector}, [this](Scope& s) {
                       s.uses(kFaceProjector);
                       const auto& face_BF = s.tensor("infinityou_id_image");
                       if (face_BF.size(1) != face_config_.num_features)
                         data_error("models",
                                    "an infinityou_id_image holds {} numbers of a face, and {} were expected: what ArcFace makes of it",
                                    face_BF.size(1), face_config_.num_features);
                       s.write("face_text", loaded<FaceProjector>(kFaceProjector).forward(here(s, "infinityou_id_image")));
                     }});
  if (has("infinityou_guidance"))
    units.push_back({"read_face_guidance", {"infinityou_guidance"}, {"face_guidance"}, {}, [](Scope& s) {
                       const auto& value_BN = s.tensor("infinityou_guidance");
                       if (value_BN.size(1) != 1)
                         data_error("models", "a sample has {} numbers of infinityou_guidance, and one was expected", value_BN.size(1));
                       s.write("face_guidance", value_BN.select(1, 0));
                     }});
  return units;
}

pipeline::Unit ControlUnits::control_unit(const ModelParts& parts) {
  const bool has_modes = has("controlnet_processor_id"), has_guidance = has("infinityou_guidance");
  const std::string text = has("infinityou_id_image") ? "face_text" : "text_embedding";
  Unit unit{"control", {"noisy", "sigma", "pooled_embedding", text, "control_latents"}, {"control_residuals"}, {kControlNet}};
  if (has_guidance) unit.reads.emplace_back("face_guidance");
  if (has_modes) unit.reads.emplace_back("control_mode");
  unit.run = [this, conditions = parts.conditions, has_modes, has_guidance, text](Scope& s) {
    s.uses(kControlNet);
    const auto& noisy = s.tensor("noisy");
    ControlNet::Inputs in{.conditions = conditions(s),
                          .latents_BIC = mmdit::to_tokens(noisy).to(options_.dtype),
                          .control_BIC = mmdit::to_tokens(s.tensor("control_latents")).to(options_.device, options_.dtype),
                          .text_BTE = here(s, text),
                          .grid = {noisy.size(2) / 2, noisy.size(3) / 2}};
    if (has_guidance) in.conditions.guidance_B = s.tensor("face_guidance").to(options_.device, at::kFloat);
    if (has_modes) in.mode_B = s.tensor("control_mode").to(options_.device);
    s.write("control_residuals", loaded<ControlNet>(kControlNet).forward(in));
  };
  return unit;
}

void ControlUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  auto& encode = groups.encode_references;
  if (has("controlnet_image")) {
    for (auto& unit : picture_units(parts)) encode.push_back(std::move(unit));
    groups.denoise.insert(groups.denoise.end() - 2, control_unit(parts));  // before modulation and transformer
    groups.denoise.back().reads.emplace_back("control_residuals");
  }
  for (auto& unit : face_units()) encode.push_back(std::move(unit));
}

void ControlUnits::give(Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!has("controlnet_image")) return;
  in.after_block = [this, residuals = scope.tensor("control_residuals")](int64_t block, const at::Tensor& image_BID) {
    auto residual = residual_for(block, dit_, config_.trunk, residuals);
    return residual.defined() ? image_BID + residual : residual;
  };
}

}  // namespace burnish::models::flux
