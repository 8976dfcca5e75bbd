#include "models/families/flux/controlnet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include <map>
#include <utility>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "io/model_values.h"

namespace burnish::models::flux {

namespace {

/// All blocks, and nothing behind them.
mmdit::HeldLayers all_blocks(const Config& c) { return {.end = c.num_double_blocks + c.num_single_blocks}; }

}  // namespace

ControlConfig detect_control(const nlohmann::json* config_json, const Shapes& shapes) {
  ControlConfig c{.trunk = detect(config_json, shapes)};
  c.control_channels = io::side_of(shapes, "controlnet_x_embedder.weight", 1, "ControlNet");
  if (shapes.contains("controlnet_mode_embedder.weight"))
    c.num_modes = io::side_of(shapes, "controlnet_mode_embedder.weight", 0, "ControlNet");
  return c;
}

ControlNet::ControlNet(const ControlConfig& c, const at::TensorOptions& options)
    : config_(c), trunk_(c.trunk, options, all_blocks(c.trunk)), control_embedder_(c.control_channels, c.trunk.width(), options) {
  own("", trunk_);
  own("controlnet_x_embedder", control_embedder_);
  if (c.num_modes > 0) mode_embedder_ = std::make_unique<nn::Embedding>(c.num_modes, c.trunk.width(), options);
  if (mode_embedder_) own("controlnet_mode_embedder", *mode_embedder_);
  for (int64_t i = 0; i < all_blocks(c.trunk).end; ++i) {
    out_.push_back(std::make_unique<nn::Linear>(c.trunk.width(), c.trunk.width(), options));
    bool is_double = i < c.trunk.num_double_blocks;
    own(is_double ? "controlnet_blocks." + std::to_string(i) : "controlnet_single_blocks." + std::to_string(i - c.trunk.num_double_blocks),
        *out_.back());
  }
}

at::Tensor ControlNet::forward(const Inputs& in) {
  std::vector<at::Tensor> residuals;
  Transformer::Inputs trunk{.latents_BIC = in.latents_BIC,
                            .text_BTE = in.text_BTE,
                            .modulation_BM = trunk_.modulate(in.conditions),
                            .grids = {in.grid, {}},
                            .added_BID = control_embedder_.forward(in.control_BIC)};
  if (mode_embedder_) trunk.prefix_BTD = mode_embedder_->forward(in.mode_B).unsqueeze(1);
  trunk.after_block = [&](int64_t block, const at::Tensor& image_BID) {
    residuals.push_back(out_.at(static_cast<size_t>(block))->forward(image_BID));
    return at::Tensor();
  };
  trunk_.forward(trunk);
  return at::stack(residuals, 1);
}

at::Tensor residual_for(int64_t block, const Config& transformer, const Config& trunk, const at::Tensor& residuals_BNID) {
  bool is_double = block < transformer.num_double_blocks;
  auto number = is_double ? block : block - transformer.num_double_blocks;
  auto count = is_double ? transformer.num_double_blocks : transformer.num_single_blocks;
  auto given = is_double ? trunk.num_double_blocks : trunk.num_single_blocks;
  if (given == 0) return {};
  auto served = (count + given - 1) / given;
  return residuals_BNID.select(1, (is_double ? 0 : trunk.num_double_blocks) + number / served);
}

// Names: the model card of InstantX/FLUX.1-dev-Controlnet-Union.
int64_t control_mode(const std::string& name, int64_t num_modes) {
  static const std::map<std::string, int64_t> named{{"canny", 0}, {"tile", 1}, {"depth", 2}, {"blur", 3},
                                                    {"pose", 4},  {"gray", 5}, {"lq", 6}};
  auto known = named.find(name);
  const auto mode = known != named.end() ? known->second : parse_number<int64_t>(name).value_or(-1);
  if (mode >= 0 && mode < num_modes) return mode;
  data_error("models", "'{}' is no kind of control; this ControlNet knows canny, tile, depth, blur, pose, gray and lq, or numbers below {}",
             name, num_modes);
}

}  // namespace burnish::models::flux
