#include "models/families/wan/vace.h"

#include <ATen/TensorOperators.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/families/wan/keys.h"
#include "models/files/config_values.h"
#include "models/parts/find_components.h"

namespace burnish::models::wan {

namespace {

constexpr const char *kBase = "transformer", *kVaceMark = "vace_patch_embedding.weight";

/// Places that spread evenly over the transformer's blocks, from the first on.
std::vector<int64_t> spread(int64_t count, int64_t num_blocks) {
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < count; ++i) layers.push_back(i * (num_blocks / count));
  return layers;
}

}  // namespace

VaceConfig detect_vace(const nlohmann::json& json, const io::Shapes& shapes, const Config& dit) {
  VaceConfig c;
  if (!shapes.empty()) {
    c.in_channels = io::side_of(shapes, kVaceMark, 1, kBase);
    c.num_blocks = io::count_of(shapes, "vace_blocks.{}.proj_out.weight");
    const auto width = io::side_of(shapes, kVaceMark, 0, kBase);
    if (width != dit.width())
      data_error("models", "the module of VACE is {} wide and the transformer {}; they belong to different models", width, dit.width());
  }
  if (c.num_blocks < 1 || c.num_blocks > dit.num_layers)
    data_error("models", "the module of VACE has {} blocks and the transformer {}; 1 to as many were expected", c.num_blocks,
               dit.num_layers);
  c.layers = spread(c.num_blocks, dit.num_layers);
  const bool is_stated = json.is_object() && io::take(json, "vace_layers", c.layers, kBase);
  if (is_stated && shapes.empty()) c.num_blocks = std::ssize(c.layers);
  const bool is_rising = std::ranges::adjacent_find(c.layers, std::greater_equal<>()) == c.layers.end();
  if (std::ssize(c.layers) != c.num_blocks || !is_rising || c.layers.empty() || c.layers.front() != 0 || c.layers.back() >= dit.num_layers)
    data_error("models", "config.json says vace_layers = [{}]; {} rising numbers from 0 to {} were expected", fmt::join(c.layers, ", "),
               c.num_blocks, dit.num_layers - 1);
  return c;
}

/// A block of the transformer's kind on the module's own tokens. Inputs are those of Block, then for the first the transformer's tokens
/// [B, L, D] -> {tokens, what is added [B, L, D]}.
class Vace::HintBlock : public Block {
 public:
  HintBlock(const Config& c, bool is_first, const at::TensorOptions& options) : Block(c, options), out_(c.width(), c.width(), options) {
    if (is_first) {
      in_.emplace(c.width(), c.width(), options);
      own("proj_in", *in_);
    }
    own("proj_out", out_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto inputs = in;
    if (in_) {
      inputs[0] = in_->forward(in[0]) + in.back();
      inputs.pop_back();
    }
    auto tokens = Block::body(inputs)[0];
    return {tokens, out_.forward(tokens)};
  }

 private:
  std::optional<nn::Linear> in_;
  nn::Linear out_;
};

Vace::Vace(const Config& dit, const VaceConfig& config, const at::TensorOptions& options)
    : config_(config),
      patch_in_(config.in_channels, dit.width(), kernels::Window{{1, kPatch, kPatch}, {1, kPatch, kPatch}, {0, 0, 0}, {1, 1, 1}}, options) {
  own("vace_patch_embedding", patch_in_);
  auto of_blocks = dit;
  of_blocks.image_width = 0;
  for (int64_t i = 0; i < config.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<HintBlock>(of_blocks, i == 0, options));
    own("vace_blocks." + std::to_string(i), *blocks_.back());
  }
}

Vace::~Vace() = default;

Hints Vace::hints(const at::Tensor& context) {
  return [this, context](const nn::Tensors& of_block) {
    auto inputs = of_block;
    auto tokens = patch_in_.forward(context.to(of_block[0].options())).flatten(2).transpose(1, 2).contiguous();
    inputs[0] = nn::Streams(shares(), {tokens.size(1)}).here(0, tokens);
    return [this, inputs, first = of_block[0]](int64_t block, const at::Tensor&) mutable -> at::Tensor {
      auto place = std::ranges::find(config_.layers, block);
      if (place == config_.layers.end()) return {};
      const auto i = static_cast<size_t>(place - config_.layers.begin());
      auto given = inputs;
      if (i == 0) given.push_back(std::exchange(first, {}));
      auto out = blocks_[i]->run(given);
      inputs[0] = out[0];
      const auto scale = config_.scales.empty() ? 1.0 : config_.scales.at(i);
      return scale == 1.0 ? out[1] : out[1] * scale;
    };
  };
}

Source find_vace(const ModelEntry& entry) {
  auto tensors = find_below(entry, kDenoiserPrefixes, kVaceMark);
  if (!tensors) return {};
  auto alone = tensors->renamed([](const std::string& name) { return name.starts_with("vace_") ? name : ""; });
  const bool is_original = alone.contains("vace_blocks.0.after_proj.weight");
  return {&entry, alone, is_original ? original_keys() : io::KeyMap{}};
}

}  // namespace burnish::models::wan
