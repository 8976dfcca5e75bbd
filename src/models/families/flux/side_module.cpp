#include "models/families/flux/side_module.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/parts/siglip.h"

namespace burnish::models::flux {

namespace {

/// Finds an IP-Adapter in InstantX's file, or in one of DiffSynth-Studio's.
Source find_ip_adapter(const ModelFiles& files) {
  if (auto theirs = find_marked(files, "ip_adapter.0.to_k_ip.weight"); theirs.entry) return theirs;
  auto found = find_marked(files, "ipadapter_modules.0.to_k_ip.weight");
  if (!found.entry) return {};
  const std::string prefix = "ipadapter_modules.";
  found.tensors = found.tensors->renamed(
      [&](const std::string& name) { return name.starts_with(prefix) ? "ip_adapter." + name.substr(prefix.size()) : name; });
  return found;
}

}  // namespace

SideSources find_side_sources(const ModelFiles& files) {
  return {.controlnet = find_marked(files, "controlnet_x_embedder.weight"),
          .ip_adapter = find_ip_adapter(files),
          .value_controller = find_marked(files, "prefer_value_embedder.0.weight"),
          .redux = find_marked(files, "redux_up.weight"),
          .image_encoder = find_siglip(files),
          .lora_encoder = find_marked(files, "special_embeds"),
          .face_projector = find_marked(files, "image_proj.latents")};
}

Described side_modules_in(const ModelFiles& files) {
  const auto found = find_side_sources(files);
  return {{found.controlnet, "FLUX.1 ControlNet"},
          {found.ip_adapter, "FLUX.1 IP-Adapter"},
          {found.value_controller, "AttriCtrl value controller"},
          {found.redux, "FLUX.1 Redux image embedder"},
          {found.lora_encoder, "FLUX.1 LoRA encoder"},
          {found.face_projector, "InfiniteYou image projector"},
          {found.image_encoder, "SigLIP image encoder"}};
}

void SideModule::add_names(Names& names) const {
  for (const auto& input : kExtraInputs) {
    if (has(input.name) && can_read(input.name)) names.extra_inputs.push_back(input);
  }
}

void SideModule::check_pairs(std::initializer_list<Pair> pairs) const {
  for (const auto& [one, other] : pairs) {
    if (has(one) && !has(other)) config_error("models", "extra_inputs names {}, which is read together with {}; name both", one, other);
  }
}

void SideModule::check_size(const Source& source, const char* what, int64_t found, int64_t expected) const {
  if (has_dit_ && found != expected)
    data_error("models", "{}: its {} is {}, and {} was expected; it belongs to another model", source.entry->label, what, found, expected);
}

std::vector<std::string> texts_in(pipeline::Scope& scope, const std::string& column) {
  const auto& cell = scope.text(column);
  auto json = nlohmann::json::parse(cell, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return {cell};
  std::vector<std::string> texts;
  for (const auto& text : json) {
    if (!text.is_string())
      data_error("models", "the column '{}' holds {}, and a text or a list of texts was expected", column, text.dump());
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

at::Tensor blocks_as_channels(const at::Tensor& x_HW, int64_t side) {
  auto rows = x_HW.size(0) / side, columns = x_HW.size(1) / side;
  return x_HW.reshape({rows, side, columns, side}).permute({1, 3, 0, 2}).reshape({side * side, rows, columns});
}

}  // namespace burnish::models::flux
