#include "models/flux/extras.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "models/shared_components.h"

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
                  *const kReduxMark = "redux_up.weight";

template <class Module, class ModuleConfig>
Recipe extra_recipe(const std::string& name, const char* what, const Source& source, const ModuleConfig& config) {
  return {.name = name, .what = what, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<Module>(config, options);
          }};
}

}  // namespace

std::vector<std::string> extras_in(const ModelFiles& files) {
  std::vector<std::string> parts;
  if (find_marked(files, kControlMark).entry) parts.emplace_back("FLUX.1 ControlNet");
  if (find_ip_adapter(files).entry) parts.emplace_back("FLUX.1 IP-Adapter");
  if (find_marked(files, kValueMark).entry) parts.emplace_back("AttriCtrl value controller");
  if (find_marked(files, kReduxMark).entry) parts.emplace_back("FLUX.1 Redux image embedder");
  if (find_siglip(files).entry) parts.emplace_back("SigLIP image encoder");
  return parts;
}

Extras::Extras(const ModelFiles& files, const ModelOptions& options, const Config& dit, bool has_dit)
    : options_(options),
      dit_(dit),
      controlnet_(find_marked(files, kControlMark)),
      ip_adapter_(find_ip_adapter(files)),
      value_controller_(find_marked(files, kValueMark)),
      redux_(find_marked(files, kReduxMark)),
      image_encoder_(find_siglip(files)) {
  auto config_of = [](const Source& source) { return source.entry->config.is_null() ? nullptr : &source.entry->config; };
  if (controlnet_.entry)
    control_config_ = naming(controlnet_.entry->label, [&] { return detect_control(config_of(controlnet_), controlnet_.shapes()); });
  if (ip_adapter_.entry)
    ip_config_ = naming(ip_adapter_.entry->label, [&] { return IpAdapter::detect(ip_adapter_.shapes(), dit.num_heads); });
  if (image_encoder_.entry)
    siglip_config_ =
        naming(image_encoder_.entry->label, [&] { return siglip_config(image_encoder_.entry->config, image_encoder_.shapes()); });
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
  if (column.starts_with("flux_fill_")) return editing_ == Editing::fill;
  if (column.starts_with("flex_")) return editing_ == Editing::flex;
  if (column == "controlnet_inpaint_mask") return controlnet_.entry && control_config_.control_channels > dit_.out_channels;
  if (column == "controlnet_processor_id") return control_config_.num_modes > 0;
  if (column.starts_with("controlnet_")) return controlnet_.entry != nullptr;
  if (column.starts_with("ipadapter_")) return ip_adapter_.entry && image_encoder_.entry;
  if (column.starts_with("flux_redux_")) return redux_.entry && image_encoder_.entry;
  if (column.starts_with("value_controller_")) return value_controller_.entry != nullptr;
  return true;  // EliGen needs no component
}

void Extras::check_control() const {
  if (!has("controlnet_image")) return;
  bool inpaints = control_config_.control_channels > dit_.out_channels;
  if (controlnet_.entry && inpaints && !has("controlnet_inpaint_mask"))
    config_error("models", "the ControlNet {} inpaints; name controlnet_inpaint_mask in extra_inputs too", controlnet_.entry->label);
  if (controlnet_.entry && control_config_.num_modes > 0 && !has("controlnet_processor_id"))
    config_error("models", "the ControlNet {} tells {} kinds of control apart; name controlnet_processor_id in extra_inputs too",
                 controlnet_.entry->label, control_config_.num_modes);
}

void Extras::check_together() const {
  check_control();
  constexpr std::pair<const char*, const char*> kPairs[] = {{"flux_fill_image", "flux_fill_mask"},
                                                            {"flux_fill_mask", "flux_fill_image"},
                                                            {"controlnet_inpaint_mask", "controlnet_image"},
                                                            {"controlnet_processor_id", "controlnet_image"},
                                                            {"eligen_entity_masks", "eligen_entity_prompts"},
                                                            {"eligen_entity_prompts", "eligen_entity_masks"}};
  for (const auto& [one, other] : kPairs) {
    if (has(one) && !has(other)) config_error("models", "extra_inputs names {}, which is read together with {}; name both", one, other);
  }
  if (options_.references && (editing_ != Editing::none || any()))
    config_error("models", "reference pictures are read by FLUX.1 Kontext alone, and not beside {}; take one of them out",
                 any() ? *options_.extra_inputs.begin() : "the channels that this transformer edits by");
}

void Extras::check_sizes() const {
  auto agree = [](const Source& source, const char* what, int64_t found, int64_t expected) {
    if (found != expected)
      data_error("models", "{}: its {} is {}, and {} was expected; it belongs to another model", source.entry->label, what, found,
                 expected);
  };
  auto num_blocks = dit_.num_double_blocks + dit_.num_single_blocks;
  if (controlnet_.entry) {
    const auto& trunk = control_config_.trunk;
    agree(controlnet_, "width", trunk.width(), dit_.width());
    agree(controlnet_, "number of input channels", trunk.in_channels, dit_.out_channels);
    agree(controlnet_, "width of texts", trunk.joint_attention_dim, dit_.joint_attention_dim);
    agree(controlnet_, "width of pooled texts", trunk.pooled_projection_dim, dit_.pooled_projection_dim);
    bool inpaints = control_config_.control_channels > dit_.out_channels;
    agree(controlnet_, "number of control channels", control_config_.control_channels, dit_.out_channels + (inpaints ? 4 : 0));
  }
  if (ip_adapter_.entry) {
    agree(ip_adapter_, "number of blocks", ip_config_.num_blocks, num_blocks);
    agree(ip_adapter_, "width of keys", ip_config_.width, dit_.width());
  }
  if (ip_adapter_.entry && image_encoder_.entry) agree(ip_adapter_, "width of pictures", ip_config_.num_features, siglip_config_.width);
  if (value_controller_.entry)
    agree(value_controller_, "width of texts", ValueEncoder::detect(value_controller_.shapes()).width, dit_.joint_attention_dim);
  if (!redux_.entry) return;
  auto redux = Redux::detect(redux_.shapes());
  agree(redux_, "width of texts", redux.width, dit_.joint_attention_dim);
  if (image_encoder_.entry) agree(redux_, "width of pictures", redux.num_features, siglip_config_.width);
}

void Extras::add_components(Components& components) const {
  if (controlnet_.entry) components.add(extra_recipe<ControlNet>(kControlNet, "ControlNet", controlnet_, control_config_));
  if (ip_adapter_.entry) components.add(extra_recipe<IpAdapter>(kIpAdapter, "IP-Adapter", ip_adapter_, ip_config_));
  if (value_controller_.entry)
    components.add(extra_recipe<ValueEncoder>(kValueController, "value controller", value_controller_,
                                              ValueEncoder::detect(value_controller_.shapes())));
  if (redux_.entry) components.add(extra_recipe<Redux>(kRedux, "Redux image embedder", redux_, Redux::detect(redux_.shapes())));
  if (image_encoder_.entry) components.add(siglip_recipe(kImageEncoder, image_encoder_, siglip_config_));
}

void Extras::add_names(Names& names) const {
  auto add_plain = [&](const Source& source, const std::string& name) {
    if (source.entry) names.components[name] = plain_names(name);
  };
  add_plain(ip_adapter_, kIpAdapter);
  add_plain(value_controller_, kValueController);
  add_plain(redux_, kRedux);
  if (image_encoder_.entry) names.components[kImageEncoder] = siglip_names(kImageEncoder);
  if (controlnet_.entry) {
    auto& control = names.components[kControlNet] = plain_names(kControlNet);
    control.high_precision = names.of("dit").high_precision;
    for (const char* more : {"controlnet_x_embedder", "controlnet_(single_)?blocks\\..*"}) control.high_precision.emplace_back(more);
  }
  for (const auto& input : kExtraInputs) {
    if (has(std::string(input.column).c_str()) && can_read(input)) names.extra_inputs.push_back(input);
  }
}

}  // namespace burnish::models::flux
