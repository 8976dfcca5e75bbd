#include "models/families/boogu/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "models/blocks/patch_tokens.h"
#include "models/families/boogu/blocks.h"

namespace burnish::models::boogu {

namespace {

constexpr double kRopeTheta = 10000, kLastNormEps = 1e-6;
/// Modulations of a block of one stream: scale and gate of attention, scale and gate of the MLP.
constexpr int64_t kOfSingle = 4, kOfLast = 1;

std::string numbered(const char* stack, int64_t i) { return std::string(stack) + "." + std::to_string(i) + "."; }

/// A layer that makes four vectors of the conditioning, and how many of these a block reads.
struct ModulationLayer {
  std::string path;
  int64_t num_made, num_read;
  std::unique_ptr<nn::Linear> linear = {};
};
/// The layers of one block.
using ModulationLayers = std::vector<ModulationLayer>;

ModulationLayers of_single(const std::string& block) {
  ModulationLayers layers;
  layers.push_back({block + "norm1.linear", kOfSingle, kOfSingle});
  return layers;
}

ModulationLayers of_double(const std::string& block) {
  ModulationLayers layers;
  for (const auto& [name, num_read] :
       {std::pair("img_norm1", 4), {"img_norm2", 2}, {"img_norm3", 2}, {"instruct_norm1", 4}, {"instruct_norm2", 2}})
    layers.push_back({block + name + ".linear", kOfSingle, num_read});
  return layers;
}

/// The blocks of a part: those of two streams, then those of one.
mmdit::HeldStacks blocks_of(const Config& c, const mmdit::HeldLayers& part) {
  return mmdit::held_stacks(part, {c.num_double, c.num_single});
}

/// Lists the layers that make the modulation of a part, block by block in order of execution.
std::vector<ModulationLayers> modulations_of(const Config& c, const mmdit::HeldStacks& held) {
  std::vector<ModulationLayers> all;
  for (const char* stack : {"noise_refiner", "ref_image_refiner"}) {
    for (int64_t i = 0; held.begins && i < c.num_refiners; ++i) all.push_back(of_single(numbered(stack, i)));
  }
  const auto &doubles = held.stacks[0], &singles = held.stacks[1];
  for (auto i = doubles.first; i < doubles.end(); ++i) all.push_back(of_double(numbered("double_stream_layers", i)));
  for (auto i = singles.first; i < singles.end(); ++i) all.push_back(of_single(numbered("single_stream_layers", i)));
  if (!held.ends) return all;
  all.emplace_back();
  all.back().push_back({"norm_out.linear_1", kOfLast, kOfLast});
  return all;
}

}  // namespace

struct Transformer::Modulation {
  std::unique_ptr<mmdit::EmbedMlp> time;
  std::vector<ModulationLayers> of_blocks;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : norm(c.caption_width, Config::kNormEps, o),
        in(c.caption_width, c.width, o),
        refiner(mmdit::several<SandwichBlock>(c.num_refiners, single_block(c, false), o)) {}
  nn::RMSNorm norm;
  nn::Linear in;
  Blocks refiner;
};

struct Transformer::Body {
  struct Start {
    Start(const Config& c, const at::TensorOptions& o)
        : target_in(4 * c.latent_channels, c.width, o),
          reference_in(4 * c.latent_channels, c.width, o),
          reference_numbers(at::empty({c.most_references, c.width}, o)),
          target_refiner(mmdit::several<SandwichBlock>(c.num_refiners, single_block(c, true), o)),
          reference_refiner(mmdit::several<SandwichBlock>(c.num_refiners, single_block(c, true), o)) {}
    nn::Linear target_in, reference_in;
    at::Tensor reference_numbers;  ///< what is added to the tokens of a reference picture by its number
    Blocks target_refiner, reference_refiner;
  };
  std::unique_ptr<Start> start;
  std::vector<std::unique_ptr<DoubleBlock>> doubles;
  Blocks singles;
  std::unique_ptr<nn::Linear> out;
};

/// Says where the tokens of a batch lie: text, reference pictures, target.
struct Transformer::Layout {
  int64_t num_text = 0;
  std::vector<int64_t> num_tokens = {};  ///< of each picture, the target's last
  at::Tensor cos, sin;                   ///< [L, P], of several samples [B, L, P]
  at::Tensor text_bias_B11T;             ///< undefined of one sample, of which nothing is masked

  int64_t num_target() const { return num_tokens.back(); }
  int64_t num_references() const {
    int64_t sum = 0;
    for (size_t i = 0; i + 1 < num_tokens.size(); ++i) sum += num_tokens[i];
    return sum;
  }
  int64_t num_pictures() const { return num_references() + num_target(); }
  /// Returns the inputs of a block of one stream over some of the tokens, without its modulation.
  nn::Tensors inputs(const at::Tensor& x, int64_t begin) const {
    return {x, cos.narrow(-2, begin, x.size(1)), sin.narrow(-2, begin, x.size(1))};
  }
};

Transformer::Transformer(const Config& c, const at::TensorOptions& o, mmdit::HeldLayers part) : config_(c), part_(part) {
  const auto held = blocks_of(c, part_);
  if (part_.modulation) {
    modulation_ = std::make_unique<Modulation>();
    if (held.begins) modulation_->time = std::make_unique<mmdit::EmbedMlp>(mmdit::kTimeChannels, c.condition_width(), o);
    modulation_->of_blocks = modulations_of(c, held);
    for (auto& block : modulation_->of_blocks) {
      for (auto& layer : block) layer.linear = std::make_unique<nn::Linear>(c.condition_width(), layer.num_made * c.width, o);
    }
  }
  if (part_.text) text_ = std::make_unique<Text>(c, o);
  if (part_.body) {
    body_ = std::make_unique<Body>();
    if (held.begins) body_->start = std::make_unique<Body::Start>(c, o);
    body_->doubles = mmdit::several<DoubleBlock>(held.stacks[0].count, c, o);
    body_->singles = mmdit::several<SandwichBlock>(held.stacks[1].count, single_block(c, true), o);
    if (held.ends) body_->out = std::make_unique<nn::Linear>(c.width, 4 * c.latent_channels, o);
  }
  own_modulation();
  own_body();
}

Transformer::~Transformer() = default;

void Transformer::own_modulation() {
  if (!modulation_) return;
  if (modulation_->time) own("time_caption_embed.timestep_embedder", *modulation_->time);
  for (auto& block : modulation_->of_blocks) {
    for (auto& layer : block) own(layer.path, *layer.linear);
  }
}

void Transformer::own_body() {
  auto own_stack = [this](const char* name, auto& blocks, int64_t first) {
    for (auto& block : blocks) own(std::string(name) + "." + std::to_string(first++), *block);
  };
  if (text_) {
    own("time_caption_embed.caption_embedder.0", text_->norm);
    own("time_caption_embed.caption_embedder.1", text_->in);
    own_stack("context_refiner", text_->refiner, 0);
  }
  if (!body_) return;
  if (auto* start = body_->start.get()) {
    own("x_embedder", start->target_in);
    own("ref_image_patch_embedder", start->reference_in);
    own("image_index_embedding", start->reference_numbers);
    own_stack("noise_refiner", start->target_refiner, 0);
    own_stack("ref_image_refiner", start->reference_refiner, 0);
  }
  const auto held = blocks_of(config_, part_);
  own_stack("double_stream_layers", body_->doubles, held.stacks[0].first);
  own_stack("single_stream_layers", body_->singles, held.stacks[1].first);
  if (body_->out) own("norm_out.linear_2", *body_->out);
}

/// Places are (text or picture, row, column): the text's tokens at (i, i, i), each picture's at what the text and the longer sides of the
/// pictures before it took up, and its rows and columns.
Transformer::Layout Transformer::layout(const at::Tensor& mask_BT, const std::vector<at::Tensor>& pictures) const {
  Layout layout;
  layout.num_text = mask_BT.size(1);
  const auto B = mask_BT.size(0);
  auto next_B1 = mask_BT.to(at::kDouble).sum(1, /*keepdim=*/true);
  const auto options = next_B1.options();
  const auto text = at::arange(layout.num_text, options).expand({B, layout.num_text});
  std::vector<at::Tensor> firsts{text}, all_rows{text}, all_columns{text};
  for (const auto& picture : pictures) {
    const auto rows = picture.size(2) / 2, columns = picture.size(3) / 2, count = rows * columns;
    auto along = [&](int64_t length, at::IntArrayRef shape) {
      return at::arange(length, options).view(shape).expand({rows, columns}).reshape({1, count}).expand({B, count});
    };
    firsts.push_back(next_B1.expand({B, count}));
    all_rows.push_back(along(rows, {-1, 1}));
    all_columns.push_back(along(columns, {1, -1}));
    layout.num_tokens.push_back(count);
    next_B1 = next_B1 + static_cast<double>(std::max(rows, columns));
  }
  auto joined = [&](const std::vector<at::Tensor>& places) {
    auto all_BL = at::cat(places, 1);
    return B == 1 ? all_BL.squeeze(0) : all_BL;
  };
  std::tie(layout.cos, layout.sin) =
      mmdit::rotary_tables({joined(firsts), joined(all_rows), joined(all_columns)}, config_.axes_dims(), kRopeTheta);
  if (B > 1) layout.text_bias_B11T = mmdit::padding_bias(mask_BT, 0);
  return layout;
}

at::Tensor Transformer::condition(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  return at::silu(modulation_->time->forward(mmdit::time_projection(1.0 - sigma_B, dtype)));
}

at::Tensor Transformer::modulate(const at::Tensor& conditioning_BS) const {
  std::vector<std::function<at::Tensor()>> parts;
  for (const auto& block : modulation_->of_blocks) {
    parts.emplace_back([this, &block, &conditioning_BS] {
      std::vector<at::Tensor> read;
      for (const auto& layer : block) read.push_back(layer.linear->forward(conditioning_BS).narrow(-1, 0, layer.num_read * config_.width));
      return read.size() == 1 ? read[0] : at::cat(read, -1);
    });
  }
  return nn::joined(parts);
}

/// Runs refiners over tokens by themselves, {tokens, cos, sin, and where they are masked a bias}; where tokens are shared out, each place
/// has a part of them.
at::Tensor Transformer::refined(const Blocks& blocks, nn::Tensors in, const nn::Tensors& modulations) const {
  const nn::Streams streams(shares(), {in[0].size(1)});
  nn::Tensors inputs{streams.here(0, in[0]), streams.by_place(in[1], -2), streams.by_place(in[2], -2)};
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto of_block = inputs;
    if (!modulations.empty()) of_block.push_back(modulations[i]);
    if (in.size() > 3) of_block.push_back(streams.bias_by_place(in[3]));
    inputs[0] = blocks[i]->run(of_block)[0];
  }
  return streams.joined(0, inputs[0]);
}

at::Tensor Transformer::refine_text(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const {
  const auto where = layout(mask_BT, {});
  auto inputs = where.inputs(text_->in.forward(text_->norm.forward(states_BTE)), 0);
  if (where.text_bias_B11T.defined()) inputs.push_back(where.text_bias_B11T);
  return refined(text_->refiner, inputs, {});
}

/// Embeds and refines all pictures, which know nothing of each other yet.
at::Tensor Transformer::start_pictures(const Inputs& in, const Layout& where, nn::Parts& modulation) const {
  const auto& start = *body_->start;
  if (std::ssize(in.references) > config_.most_references)
    data_error("models", "a sample has {} reference pictures, and the transformer tells {} apart; give it fewer", in.references.size(),
               config_.most_references);
  auto modulations = [&](const Blocks& blocks) {
    nn::Tensors of_blocks;
    for (size_t i = 0; i < blocks.size(); ++i) of_blocks.push_back(modulation.next());
    return of_blocks;
  };
  const auto of_target = modulations(start.target_refiner), of_references = modulations(start.reference_refiner);
  const auto dtype = in.text_BTD.scalar_type();
  auto tokens_of = [&](const nn::Linear& embedder, const at::Tensor& latents) {
    return embedder.forward(channels_last_tokens(latents).to(dtype));
  };
  nn::Tensors all;
  auto begin = where.num_text;
  for (size_t i = 0; i < in.references.size(); ++i) {
    const auto tokens = tokens_of(start.reference_in, in.references[i]) + start.reference_numbers[static_cast<int64_t>(i)];
    all.push_back(refined(start.reference_refiner, where.inputs(tokens, begin), of_references));
    begin += where.num_tokens[i];
  }
  all.push_back(refined(start.target_refiner, where.inputs(tokens_of(start.target_in, in.noisy_BCHW), begin), of_target));
  return all.size() == 1 ? all[0] : at::cat(all, 1);
}

/// Runs the blocks that are held over this place's tokens, and returns them, text first.
at::Tensor Transformer::run_blocks(const at::Tensor& text_here, const at::Tensor& pictures_here, const Layout& where,
                                   const nn::Streams& streams, nn::Parts& modulation) const {
  const auto cos = streams.by_place(where.cos, -2), sin = streams.by_place(where.sin, -2);
  const auto num_all = where.num_text + where.num_pictures();
  nn::Tensors behind;
  if (where.text_bias_B11T.defined()) {
    const auto of_pictures = at::zeros_like(where.text_bias_B11T.narrow(-1, 0, 1)).expand({-1, 1, 1, where.num_pictures()});
    behind.push_back(streams.bias_by_place(at::cat({where.text_bias_B11T, of_pictures}, -1)));
  }
  auto picture = pictures_here, text = text_here;
  for (const auto& block : body_->doubles) {
    nn::Tensors inputs{picture, text, modulation.next(), cos, sin};
    if (!streams.are_whole()) {
      const auto numbers_L = streams.by_place(at::arange(num_all, cos.options().dtype(at::kLong)), 0);
      inputs.push_back(at::argsort(numbers_L).narrow(0, where.num_text, where.num_pictures()));
    }
    inputs.insert(inputs.end(), behind.begin(), behind.end());
    const auto out = block->run(inputs);
    picture = out[0];
    text = out[1];
  }
  auto tokens = at::cat({text, picture}, 1);
  for (const auto& block : body_->singles) {
    nn::Tensors inputs{tokens, cos, sin, modulation.next()};
    inputs.insert(inputs.end(), behind.begin(), behind.end());
    tokens = block->run(inputs)[0];
  }
  return tokens;
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto pictures = in.references;
  pictures.push_back(in.noisy_BCHW);
  const auto where = layout(in.mask_BT, pictures);
  std::vector<int64_t> sizes;
  for (const auto& block : modulations_of(config_, blocks_of(config_, part_))) {
    sizes.push_back(0);
    for (const auto& layer : block) sizes.back() += layer.num_read * config_.width;
  }
  nn::Parts modulation(in.modulation_BM, sizes);

  auto text = body_->start ? in.text_BTD : in.hidden_BLD.narrow(1, 0, where.num_text).contiguous();
  auto picture =
      body_->start ? start_pictures(in, where, modulation) : in.hidden_BLD.narrow(1, where.num_text, where.num_pictures()).contiguous();
  // Reference pictures stand before the target, whose share evens out the others'.
  std::vector<int64_t> lengths{where.num_text, where.num_target()};
  if (where.num_references() > 0) lengths.insert(lengths.begin() + 1, where.num_references());
  const nn::Streams streams(shares(), lengths);
  if (!streams.are_whole()) {
    text = streams.here(0, text);
    auto target = streams.here(lengths.size() - 1, picture.narrow(1, where.num_references(), where.num_target()));
    picture = lengths.size() == 2 ? target : at::cat({streams.here(1, picture.narrow(1, 0, where.num_references())), target}, 1);
  }
  const auto tokens = run_blocks(text, picture, where, streams, modulation);
  if (!body_->out) return tokens;
  const auto num_here = streams.are_whole() ? where.num_target() : streams.length_here(lengths.size() - 1);
  const auto target = tokens.narrow(1, tokens.size(1) - num_here, num_here), scale = modulation.next();
  const auto normed = kernels::modulated_norm(target, scale, at::zeros_like(scale), kLastNormEps);
  return -of_channels_last_tokens(streams.joined(lengths.size() - 1, body_->out->forward(normed)), in.noisy_BCHW.size(2) / 2,
                                  in.noisy_BCHW.size(3) / 2);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("norm_out.") || (path.find("norm") != path.npos && path.find(".linear.") != path.npos);
  });
}

}  // namespace burnish::models::boogu
