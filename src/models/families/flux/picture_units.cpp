#include "models/families/flux/picture_units.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace burnish::models::flux {

using pipeline::Scope;

PictureUnits::PictureUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit)
    : SideModule(options, components, dit, has_dit), adapter_(found.ip_adapter), redux_(found.redux), encoder_(found.image_encoder) {
  if (encoder_.entry) encoder_config_ = read_named(encoder_, siglip_config);
  if (adapter_.entry) {
    adapter_config_ = naming(adapter_.entry->label, [&] { return IpAdapter::detect(adapter_.shapes(), dit.num_heads); });
    check_size(adapter_, "number of blocks", adapter_config_.num_blocks, dit.num_double_blocks + dit.num_single_blocks);
    check_size(adapter_, "width of keys", adapter_config_.width, dit.width());
    if (encoder_.entry) check_size(adapter_, "width of pictures", adapter_config_.num_features, encoder_config_.width);
  }
  if (redux_.entry) {
    redux_config_ = Redux::detect(redux_.shapes());
    check_size(redux_, "width of texts", redux_config_.width, dit.joint_attention_dim);
    if (encoder_.entry) check_size(redux_, "width of pictures", redux_config_.num_features, encoder_config_.width);
  }
}

bool PictureUnits::can_read(std::string_view column) const {
  if (column.starts_with("ipadapter_")) return adapter_.entry && encoder_.entry;
  return column.starts_with("flux_redux_") && redux_.entry && encoder_.entry;
}

std::vector<NamedRecipe> PictureUnits::components(const ComponentNames&) const {
  std::vector<NamedRecipe> all;
  if (adapter_.entry) all.push_back({side_recipe<IpAdapter>(kIpAdapter, "IP-Adapter", adapter_, adapter_config_), plain_names(kIpAdapter)});
  if (redux_.entry) all.push_back({side_recipe<Redux>(kRedux, "Redux image embedder", redux_, redux_config_), plain_names(kRedux)});
  if (encoder_.entry) all.push_back({siglip_recipe(kImageEncoder, encoder_, encoder_config_), siglip_names(kImageEncoder, encoder_)});
  return all;
}

SiglipVision::Output PictureUnits::see(const std::vector<at::Tensor>& pictures) const {
  auto& encoder = loaded<SiglipVision>(kImageEncoder);
  const auto side = encoder.config().image_size;
  std::vector<at::Tensor> resized;
  for (const auto& picture : pictures) resized.push_back(resized_bicubic(picture, side, side));
  return encoder.forward(at::stack(resized).to(options_.device, options_.dtype));
}

pipeline::Unit PictureUnits::redux_unit(int64_t text_length) const {
  return {
      "encode_redux", {"flux_redux_image"}, {"text_embedding", "pooled_embedding"}, {kImageEncoder, kRedux}, [this, text_length](Scope& s) {
        s.uses(kImageEncoder);
        s.uses(kRedux);
        auto tokens = loaded<Redux>(kRedux).forward(see({picture_of(s, "flux_redux_image")}).tokens_BLE);
        s.write("text_embedding", at::cat({at::zeros({1, text_length, tokens.size(2)}, tokens.options()), tokens}, 1));
        s.write("pooled_embedding", at::zeros({1, dit_.pooled_projection_dim}, tokens.options()));
      }};
}

void PictureUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (has("flux_redux_image")) groups.encode_prompt = {redux_unit(parts.text_length)};
  if (!has("ipadapter_images")) return;
  add_encoding(groups, {{"encode_ipadapter_images", {"ipadapter_images"}, {"ipadapter_features"}, {kImageEncoder}, [this](Scope& s) {
                           s.uses(kImageEncoder);
                           s.write("ipadapter_features", see(s.lists("ipadapter_images").at(0)).pooled_BE.unsqueeze(0));
                         }}});
  groups.denoise.back().models.push_back(kIpAdapter);
}

void PictureUnits::give(Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!has("ipadapter_images")) return;
  scope.uses(kIpAdapter);
  const auto& adapter = loaded<IpAdapter>(kIpAdapter);
  in.further = [&adapter, tokens = adapter.tokens(here(scope, "ipadapter_features"))](int64_t block) {
    auto keys = adapter.keys_and_values(block, tokens);
    return mmdit::Further{.bias = {}, .keys = keys[0], .values = keys[1]};
  };
}

}  // namespace burnish::models::flux
