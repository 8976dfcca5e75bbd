#include "models/families/flux/extras.h"

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::models::flux {

namespace {

/// Pixels along a side of what one channel of Fill's mask stands for.
constexpr int64_t kFillSide = 8;

Source find_marked(const ModelFiles& files, const std::string& mark) {
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.tensors->contains(mark)) return {&entry, *entry.tensors, {}};
  }
  return {};
}

/// In InstantX's file, or in one of DiffSynth-Studio's.
Source find_ip_adapter(const ModelFiles& files) {
  if (auto theirs = find_marked(files, "ip_adapter.0.to_k_ip.weight"); theirs.entry) return theirs;
  auto found = find_marked(files, "ipadapter_modules.0.to_k_ip.weight");
  if (!found.entry) return {};
  const std::string prefix = "ipadapter_modules.";
  found.tensors = found.tensors->renamed(
      [&](const std::string& name) { return name.starts_with(prefix) ? "ip_adapter." + name.substr(prefix.size()) : name; });
  return found;
}

const char *const kControlMark = "controlnet_x_embedder.weight", *const kValueMark = "prefer_value_embedder.0.weight",
                  *const kReduxMark = "redux_up.weight", *const kLoraMark = "special_embeds", *const kFaceMark = "image_proj.latents";

template <class Module, class ModuleConfig>
Recipe extra_recipe(const std::string& name, const char* what, const Source& source, const ModuleConfig& config) {
  return {.name = name, .what = what, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<Module>(config, options);
          }};
}

}  // namespace

Described extras_in(const ModelFiles& files) {
  return {{find_marked(files, kControlMark), "FLUX.1 ControlNet"},
          {find_ip_adapter(files), "FLUX.1 IP-Adapter"},
          {find_marked(files, kValueMark), "AttriCtrl value controller"},
          {find_marked(files, kReduxMark), "FLUX.1 Redux image embedder"},
          {find_marked(files, kLoraMark), "FLUX.1 LoRA encoder"},
          {find_marked(files, kFaceMark), "InfiniteYou image projector"},
          {find_siglip(files), "SigLIP image encoder"}};
}

Extras::Extras(const ModelFiles& files, const ModelOptions& options, const Config& dit, bool has_dit)
    : options_(options),
      dit_(dit),
      has_dit_(has_dit),
      found_{.controlnet = find_marked(files, kControlMark),
             .ip_adapter = find_ip_adapter(files),
             .value_controller = find_marked(files, kValueMark),
             .redux = find_marked(files, kReduxMark),
             .image_encoder = find_siglip(files),
             .lora_encoder = find_marked(files, kLoraMark),
             .face_projector = find_marked(files, kFaceMark)} {
  if (found_.controlnet.entry)
    control_config_ = naming(found_.controlnet.entry->label, [&] { return found_.controlnet.read(detect_control); });
  if (found_.ip_adapter.entry)
    ip_config_ = naming(found_.ip_adapter.entry->label, [&] { return IpAdapter::detect(found_.ip_adapter.shapes(), dit.num_heads); });
  if (found_.lora_encoder.entry)
    lora_config_ = naming(found_.lora_encoder.entry->label, [&] { return LoraEncoder::detect(found_.lora_encoder.shapes(), dit); });
  if (found_.face_projector.entry)
    face_config_ = naming(found_.face_projector.entry->label, [&] { return FaceProjector::detect(found_.face_projector.shapes()); });
  if (found_.image_encoder.entry)
    siglip_config_ = naming(found_.image_encoder.entry->label, [&] { return found_.image_encoder.read(siglip_config); });
  if (dit.in_channels == 2 * dit.out_channels + 4 * kFillSide * kFillSide) editing_ = Editing::fill;
  else if (dit.in_channels == 3 * dit.out_channels + 4) editing_ = Editing::flex;
  else if (dit.in_channels != dit.out_channels)
    data_error("models",
               "the transformer takes {} channels for {} that it gives; those of FLUX.1, of Fill ({}) and of FLEX.2 ({}) are known",
               dit.in_channels, dit.out_channels, 2 * dit.out_channels + 4 * kFillSide * kFillSide, 3 * dit.out_channels + 4);
  check_together();
  if (has_dit) check_sizes();
}

bool Extras::can_read(const ExtraInput& input) const {
  const auto& column = input.column;
  if (column.starts_with("flux_fill_")) return !has_dit_ || editing_ == Editing::fill;
  if (column.starts_with("flex_")) return !has_dit_ || editing_ == Editing::flex;
  if (column == "controlnet_inpaint_mask") return found_.controlnet.entry && control_config_.control_channels > dit_.out_channels;
  if (column == "controlnet_processor_id") return control_config_.num_modes > 0;
  if (column.starts_with("controlnet_")) return found_.controlnet.entry != nullptr;
  if (column.starts_with("ipadapter_")) return found_.ip_adapter.entry && found_.image_encoder.entry;
  if (column.starts_with("flux_redux_")) return found_.redux.entry && found_.image_encoder.entry;
  if (column.starts_with("infinityou_")) return found_.face_projector.entry != nullptr;
  if (column.starts_with("lora_encoder_")) return found_.lora_encoder.entry != nullptr;
  if (column.starts_with("value_controller_")) return found_.value_controller.entry != nullptr;
  return true;  // EliGen needs no component
}

void Extras::check_control() const {
  if (!has("controlnet_image")) return;
  bool inpaints = control_config_.control_channels > dit_.out_channels;
  if (found_.controlnet.entry && inpaints && !has("controlnet_inpaint_mask"))
    config_error("models", "the ControlNet {} inpaints; name controlnet_inpaint_mask too", found_.controlnet.entry->label);
  if (found_.controlnet.entry && control_config_.num_modes > 0 && !has("controlnet_processor_id"))
    config_error("models", "the ControlNet {} tells {} kinds of control apart; name controlnet_processor_id too",
                 found_.controlnet.entry->label, control_config_.num_modes);
}

void Extras::check_together() const {
  check_control();
  constexpr std::pair<const char*, const char*> kPairs[] = {{"flux_fill_image", "flux_fill_mask"},
                                                            {"flux_fill_mask", "flux_fill_image"},
                                                            {"controlnet_inpaint_mask", "controlnet_image"},
                                                            {"controlnet_processor_id", "controlnet_image"},
                                                            {"infinityou_id_image", "controlnet_image"},
                                                            {"infinityou_guidance", "infinityou_id_image"},
                                                            {"eligen_entity_masks", "eligen_entity_prompts"},
                                                            {"eligen_entity_prompts", "eligen_entity_masks"}};
  for (const auto& [one, other] : kPairs) {
    if (has(one) && !has(other)) config_error("models", "extra_inputs names {}, which is read together with {}; name both", one, other);
  }
  if (options_.references && (editing_ != Editing::none || any()))
    config_error("models", "reference pictures are read by FLUX.1 Kontext and Step1X-Edit alone, and not beside {}; take one of them out",
                 any() ? *options_.extra_inputs.begin() : "the channels that this transformer edits by");
}

void Extras::check_sizes() const {
  auto agree = [](const Source& source, const char* what, int64_t found, int64_t expected) {
    if (found != expected)
      data_error("models", "{}: its {} is {}, and {} was expected; it belongs to another model", source.entry->label, what, found,
                 expected);
  };
  auto num_blocks = dit_.num_double_blocks + dit_.num_single_blocks;
  if (found_.controlnet.entry) {
    const auto& trunk = control_config_.trunk;
    agree(found_.controlnet, "width", trunk.width(), dit_.width());
    agree(found_.controlnet, "number of input channels", trunk.in_channels, dit_.out_channels);
    agree(found_.controlnet, "width of texts", trunk.joint_attention_dim, dit_.joint_attention_dim);
    agree(found_.controlnet, "width of pooled texts", trunk.pooled_projection_dim, dit_.pooled_projection_dim);
    bool inpaints = control_config_.control_channels > dit_.out_channels;
    agree(found_.controlnet, "number of control channels", control_config_.control_channels, dit_.out_channels + (inpaints ? 4 : 0));
  }
  if (found_.ip_adapter.entry) {
    agree(found_.ip_adapter, "number of blocks", ip_config_.num_blocks, num_blocks);
    agree(found_.ip_adapter, "width of keys", ip_config_.width, dit_.width());
  }
  if (found_.ip_adapter.entry && found_.image_encoder.entry)
    agree(found_.ip_adapter, "width of pictures", ip_config_.num_features, siglip_config_.width);
  if (found_.value_controller.entry)
    agree(found_.value_controller, "width of texts", ValueEncoder::detect(found_.value_controller.shapes()).width,
          dit_.joint_attention_dim);
  if (found_.lora_encoder.entry) {
    agree(found_.lora_encoder, "width of texts", lora_config_.width, dit_.joint_attention_dim);
    agree(found_.lora_encoder, "width of layers", lora_config_.layers[0].in, dit_.width());
  }
  if (found_.face_projector.entry) agree(found_.face_projector, "width of texts", face_config_.width, dit_.joint_attention_dim);
  if (!found_.redux.entry) return;
  auto redux = Redux::detect(found_.redux.shapes());
  agree(found_.redux, "width of texts", redux.width, dit_.joint_attention_dim);
  if (found_.image_encoder.entry) agree(found_.redux, "width of pictures", redux.num_features, siglip_config_.width);
}

void Extras::add_components(const AddComponent& add, const ComponentNames& dit) const {
  auto add_plain = [&](const Recipe& recipe) {
    if (recipe.source.entry) add(recipe, plain_names(recipe.name));
  };
  if (found_.controlnet.entry) {
    auto names = plain_names(kControlNet);
    names.high_precision = dit.high_precision;
    for (const char* more : {"controlnet_x_embedder", "controlnet_(single_)?blocks\\..*"}) names.high_precision.emplace_back(more);
    add(extra_recipe<ControlNet>(kControlNet, "ControlNet", found_.controlnet, control_config_), names);
  }
  add_plain(extra_recipe<IpAdapter>(kIpAdapter, "IP-Adapter", found_.ip_adapter, ip_config_));
  if (found_.value_controller.entry)
    add_plain(extra_recipe<ValueEncoder>(kValueController, "value controller", found_.value_controller,
                                         ValueEncoder::detect(found_.value_controller.shapes())));
  if (found_.redux.entry)
    add_plain(extra_recipe<Redux>(kRedux, "Redux image embedder", found_.redux, Redux::detect(found_.redux.shapes())));
  add_plain(extra_recipe<LoraEncoder>(kLoraEncoder, "LoRA encoder", found_.lora_encoder, lora_config_));
  add_plain(extra_recipe<FaceProjector>(kFaceProjector, "image projector", found_.face_projector, face_config_));
  if (found_.image_encoder.entry)
    add(siglip_recipe(kImageEncoder, found_.image_encoder, siglip_config_), siglip_names(kImageEncoder, found_.image_encoder));
}

void Extras::add_names(Names& names) const {
  for (const auto& input : kExtraInputs) {
    if (has(std::string(input.column).c_str()) && can_read(input)) names.extra_inputs.push_back(input);
  }
}

}  // namespace burnish::models::flux
