#include "models/families/qwen_image_21/controlnet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::qwen_image_21 {

namespace {

/// MLPs of this form below `control_blocks` have no other family's ControlNets.
constexpr const char* kControlMark = "control_blocks.0.img_mlp.gate_layer.weight";

}  // namespace

/// {condition, target, as a Block's other inputs} -> {condition, target, what is added to the transformer's condition, and to its target}.
class ControlNet::ControlBlock : public Block {
 public:
  ControlBlock(const qwen_image_21::Config& c, const at::TensorOptions& options)
      : Block(c, options), after_(c.width(), c.width(), options) {
    own("after_proj", after_);
  }
  nn::Tensors body(const nn::Tensors& inputs) override {
    auto out = Block::body(inputs);
    for (size_t run = 0; run < 2; ++run) out.push_back(after_.forward(out[run]));
    return out;
  }

 private:
  nn::Linear after_;
};

ControlNet::Config ControlNet::detect(const io::Shapes& shapes, const qwen_image_21::Config& transformer) {
  auto side = [&](const char* name, size_t dim) { return io::side_of(shapes, name, dim, "ControlNet"); };
  Config c{.blocks = transformer};
  auto& b = c.blocks;
  b.in_channels = side("control_img_in.weight", 1);
  b.num_layers = io::count_of(shapes, "control_blocks.{}.attn.norm_q.weight");
  b.head_dim = side("control_blocks.0.attn.norm_q.weight", 0);
  b.num_heads = side("control_img_in.weight", 0) / b.head_dim;
  b.hidden = side("control_blocks.0.img_mlp.out.weight", 1);
  c.every = (transformer.num_layers + b.num_layers - 1) / b.num_layers;
  return c;
}

ControlNet::ControlNet(const Config& c, const at::TensorOptions& options)
    : every_(c.every), in_(c.blocks.in_channels, c.blocks.width(), options), before_(c.blocks.width(), c.blocks.width(), options) {
  own("control_img_in", in_);
  own("control_blocks.0.before_proj", before_);
  for (int64_t i = 0; i < c.blocks.num_layers; ++i) {
    blocks_.push_back(std::make_unique<ControlBlock>(c.blocks, options));
    own(fmt::format("control_blocks.{}", i), *blocks_.back());
  }
}

ControlNet::~ControlNet() = default;

nn::Tensors ControlNet::begin(const nn::Tensors& inputs, const at::Tensor& control_BIN) const {
  auto controlled = inputs;
  const auto control = before_.forward(at::cat({at::zeros_like(inputs[0]), in_.forward(control_BIN)}, 1));
  const auto num_condition = inputs[0].size(1);
  controlled[0] = inputs[0] + control.narrow(1, 0, num_condition);
  controlled[1] = inputs[1] + control.narrow(1, num_condition, inputs[1].size(1));
  return controlled;
}

void ControlNet::follow(int64_t block, nn::Tensors& controlled, nn::Tensors& inputs) const {
  if (block % every_ != 0) return;
  auto out = blocks_.at(static_cast<size_t>(block / every_))->run(controlled);
  for (size_t run = 0; run < 2; ++run) {
    controlled[run] = out[run];
    inputs[run] = inputs[run] + out[run + 2];
  }
}

Source find_control(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.tensors->contains(kControlMark)) return {&entry, *entry.tensors, {}};
  }
  return {};
}

Control::Control(const ModelFiles& files, const ModelOptions& options, const qwen_image_21::Config& dit, bool has_dit)
    : options_(options), dit_(dit), source_(find_control(files)) {
  if (reads(kMaskColumn) != reads(kInpaintedColumn))
    config_error("models", "extra_inputs names {}, which is read together with {}; name both",
                 reads(kMaskColumn) ? kMaskColumn : kInpaintedColumn, reads(kMaskColumn) ? kInpaintedColumn : kMaskColumn);
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

void Control::add_components(Components& components) const {
  if (!source_.entry) return;
  components.add({.name = kControlNet,
                  .what = "ControlNet",
                  .source = source_,
                  .build = [config = config_](const std::string&, const at::TensorOptions& options) {
                    return std::make_unique<ControlNet>(config, options);
                  }});
}

void Control::add_names(Names& names) const {
  if (!source_.entry) return;
  auto& own = names.components[kControlNet] = plain_names(kControlNet);
  own.high_precision = {"control_img_in", ".*\\.before_proj", ".*\\.after_proj"};
  for (const auto& input : kExtraInputs) {
    if (reads(std::string(input.column))) names.extra_inputs.push_back(input);
  }
}

pipeline::Units Control::encode_units(int64_t downsampling, const std::function<at::Tensor(const at::Tensor&)>& encode) const {
  if (!is_read()) return {};
  pipeline::Unit unit{"encode_control", {}, {"control_latents"}, {"vae"}};
  for (const auto& input : kExtraInputs) {
    if (reads(std::string(input.column))) unit.reads.emplace_back(input.column);
  }
  unit.run = [=, controls = reads(kControlColumn), inpaints = reads(kMaskColumn)](pipeline::Scope& s) {
    s.uses("vae");
    at::Tensor control, kept, inpainted;
    if (controls) control = encode(picture_of(s, kControlColumn).unsqueeze(0));
    if (inpaints) {
      const auto kept_HW = 1 - white_of(picture_of(s, kMaskColumn));
      inpainted = encode((picture_of(s, kInpaintedColumn) * kept_HW).unsqueeze(0));
      kept = every_nth(kept_HW, 0, downsampling).unsqueeze(0).unsqueeze(0).to(inpainted.options());
    }
    if (!controls) control = at::zeros_like(inpainted);
    if (!inpaints) {
      inpainted = at::zeros_like(control);
      kept = inpainted.narrow(1, 0, 1);
    }
    s.write("control_latents", at::cat({control, kept, inpainted}, 1));
  };
  return {unit};
}

}  // namespace burnish::models::qwen_image_21
