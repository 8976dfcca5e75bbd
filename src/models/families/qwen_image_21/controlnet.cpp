#include "models/families/qwen_image_21/controlnet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include "io/model_values.h"

namespace burnish::models::qwen_image_21 {

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

}  // namespace burnish::models::qwen_image_21
