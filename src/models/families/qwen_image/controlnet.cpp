#include "models/families/qwen_image/controlnet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <fmt/core.h>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/parts/find_components.h"

namespace burnish::models::qwen_image {

namespace {

constexpr double kControlNormEps = 1e-6;
constexpr const char* kControlMark = "controlnet_blocks.0.x_rms.weight";

/// {picture, embedded control [B,I,D]} -> {picture}.
class ControlBlock : public nn::Block {
 public:
  ControlBlock(int64_t width, const at::TensorOptions& options)
      : image_norm_(width, kControlNormEps, options),
        control_norm_(width, kControlNormEps, options),
        in_(width, width, options),
        out_(width, width, options) {
    own("x_rms", image_norm_);
    own("y_rms", control_norm_);
    own("input_proj", in_);
    own("output_proj", out_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    return {in[0] + out_.forward(at::gelu(in_.forward(image_norm_.forward(in[0]) + control_norm_.forward(in[1]))))};
  }

 private:
  nn::RMSNorm image_norm_, control_norm_;
  nn::Linear in_, out_;
};

}  // namespace

BlockwiseControlNet::Config BlockwiseControlNet::detect(const io::Shapes& shapes) {
  auto side = [&](const char* name, size_t dim) { return io::side_of(shapes, name, dim, "blockwise ControlNet"); };
  Config c{.in_channels = side("img_in.weight", 1),
           .num_blocks = io::count_of(shapes, "controlnet_blocks.{}.x_rms.weight"),
           .width = side("img_in.weight", 0)};
  return c;
}

BlockwiseControlNet::BlockwiseControlNet(const Config& c, const at::TensorOptions& options) : in_(c.in_channels, c.width, options) {
  own("img_in", in_);
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<ControlBlock>(c.width, options));
    own(fmt::format("controlnet_blocks.{}", i), *blocks_.back());
  }
}

at::Tensor BlockwiseControlNet::forward(int64_t block, const at::Tensor& image_BID, const at::Tensor& embedded_BID) const {
  return blocks_.at(static_cast<size_t>(block))->run({image_BID, embedded_BID})[0];
}

Source find_control(const ModelFiles& files) { return find_marked(files, kControlMark); }

Control::Control(const ModelOptions& options, Components& components, const ModelFiles& files, const qwen_image::Config& dit, bool has_dit)
    : SideModule(options, components), dit_(dit), source_(find_control(files)) {
  if (inpaints() && !is_read())
    config_error("models", "extra_inputs names {}, which is read together with {}; name both", kControlMaskColumn, kControlColumn);
  if (!source_.entry) return;
  const auto& label = source_.entry->label;
  config_ = naming(label, [&] { return BlockwiseControlNet::detect(source_.shapes()); });
  const auto of_mask = config_.in_channels - dit.in_channels;
  if (has_dit && (config_.num_blocks != dit.num_layers || config_.width != dit.width() || (of_mask != 0 && of_mask != 4)))
    data_error(
        "models",
        "{}: a ControlNet of {} blocks, {} wide, for tokens of {} channels, and {}, {} and {} (to inpaint {}) were expected; it belongs "
        "to another model",
        label, config_.num_blocks, config_.width, config_.in_channels, dit.num_layers, dit.width(), dit.in_channels, dit.in_channels + 4);
  if (has_dit && is_read() && of_mask != 0 && !inpaints())
    config_error("models", "the ControlNet {} inpaints; name {} too", label, kControlMaskColumn);
}

std::vector<NamedRecipe> Control::components(const ComponentNames&) const {
  if (!source_.entry) return {};
  auto names = plain_names(kBlockwise);
  names.high_precision = {"img_in"};
  return {{side_recipe<BlockwiseControlNet>(kBlockwise, "blockwise ControlNet", source_, config_), names}};
}

void Control::add_names(Names& names) const {
  if (!source_.entry) return;
  if (is_read()) names.extra_inputs.push_back(kExtraInputs[0]);
  if (inpaints() && config_.in_channels > dit_.in_channels) names.extra_inputs.push_back(kExtraInputs[1]);
}

void Control::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!is_read()) return;
  std::vector<std::string> columns{kControlColumn};
  if (inpaints()) columns.emplace_back(kControlMaskColumn);
  add_encoding(groups, {{"encode_control", columns, {"control_latents"}, {parts.vae}, [columns, parts](pipeline::Scope& s) {
                           s.uses(parts.vae);
                           auto mask = columns.size() > 1 ? picture_of(s, columns[1]) : at::Tensor();
                           s.write("control_latents", control_latents(picture_of(s, columns[0]), mask, parts));
                         }}});
  groups.denoise.back().models.push_back(kBlockwise);
}

void Control::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!is_read()) return;
  scope.uses(kBlockwise);
  const auto& control = loaded<BlockwiseControlNet>(kBlockwise);
  auto embedded = control.embed(mmdit::to_tokens(scope.tensor("control_latents")).to(options_.device, options_.dtype));
  in.after_block = [&control, embedded](int64_t block, const at::Tensor& image_BID) { return control.forward(block, image_BID, embedded); };
}

}  // namespace burnish::models::qwen_image
