#include "models/families/chroma/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "kernels/modulated_norm/modulated_norm.h"

namespace burnish::models::chroma {

namespace {

constexpr double kChromaTheta = 10000.0, kChromaEps = 1e-6;
/// The epsilon of a torch.nn.RMSNorm that is given none.
constexpr double kTimeNormEps = std::numeric_limits<float>::epsilon();

mmdit::Widths widths_of(const Config& c) { return {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.mlp_hidden}; }

/// Sinusoids of 1000 · t in fp32, rounded where diffusers rounds (embeddings.py, get_timestep_embedding): the numbers of vectors make
/// angles so large that their last bit moves a sinusoid by a hundredth.
at::Tensor waves(const at::Tensor& t_N, int64_t channels) {
  auto half = channels / 2;
  auto exponents = at::arange(half, t_N.options().dtype(at::kFloat)) * -std::log(10000.0) / static_cast<double>(half);
  auto frequencies = exponents.to(at::kDouble).exp().to(at::kFloat);  // the nearest number in fp32, whatever the processor
  auto angles = (t_N.to(at::kFloat) * 1000.0).unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1);
}

/// Rotary tables: text tokens sit at (0, 0, 0), the token in row r and column c at (0, r, c).
std::pair<at::Tensor, at::Tensor> rope(const Config& c, int64_t num_text, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto opts = options.dtype(at::kDouble);
  auto behind_text = [&](const at::Tensor& places_RC) { return at::cat({at::zeros({num_text}, opts), places_RC.reshape({-1})}); };
  auto row = at::arange(rows, opts).unsqueeze(1).expand({rows, columns}),
       column = at::arange(columns, opts).unsqueeze(0).expand({rows, columns});
  return mmdit::rotary_tables({at::zeros({num_text + rows * columns}, opts), behind_text(row), behind_text(column)}, c.axes_dims,
                              kChromaTheta);
}

}  // namespace

struct Transformer::Approximator {
  Approximator(const Config& c, const at::TensorOptions& o)
      : in(c.time_channels, c.time_hidden, o),
        layers(mmdit::several<mmdit::EmbedMlp>(c.num_time_layers, c.time_hidden, c.time_hidden, o)),
        norms(mmdit::several<nn::RMSNorm>(c.num_time_layers, c.time_hidden, kTimeNormEps, o)),
        out(c.time_hidden, c.width(), o) {}

  /// [B, N, channels] -> [B, N, D].
  at::Tensor forward(const at::Tensor& x_BNC) const {
    auto x = in.forward(x_BNC);
    for (size_t i = 0; i < layers.size(); ++i) x = x + layers[i]->forward(norms[i]->forward(x));
    return out.forward(x);
  }

  nn::Linear in;
  std::vector<std::unique_ptr<mmdit::EmbedMlp>> layers;
  std::vector<std::unique_ptr<nn::RMSNorm>> norms;
  nn::Linear out;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : image_in(c.in_channels, c.width(), o),
        text_in(c.caption_width, c.width(), o),
        double_blocks(mmdit::several<mmdit::DoubleBlock>(c.num_double_blocks, widths_of(c), o,
                                                         mmdit::DoubleBlock::Names{.image_mlp = "ff", .text_mlp = "ff_context"})),
        single_blocks(mmdit::several<mmdit::SingleBlock>(c.num_single_blocks, widths_of(c), o)),
        out(c.width(), c.in_channels, o) {}
  nn::Linear image_in, text_in;
  std::vector<std::unique_ptr<mmdit::DoubleBlock>> double_blocks;
  std::vector<std::unique_ptr<mmdit::SingleBlock>> single_blocks;
  nn::Linear out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    approximator_ = std::make_unique<Approximator>(c, options);
    const std::string name = "distilled_guidance_layer.";
    own(name + "in_proj", approximator_->in);
    for (size_t i = 0; i < approximator_->layers.size(); ++i) {
      own(name + "layers." + std::to_string(i), *approximator_->layers[i]);
      own(name + "norms." + std::to_string(i), *approximator_->norms[i]);
    }
    own(name + "out_proj", approximator_->out);
  }
  if (!part.body) return;
  body_ = std::make_unique<Body>(c, options);
  own("context_embedder", body_->text_in);
  own("x_embedder", body_->image_in);
  for (size_t i = 0; i < body_->double_blocks.size(); ++i) own("transformer_blocks." + std::to_string(i), *body_->double_blocks[i]);
  for (size_t i = 0; i < body_->single_blocks.size(); ++i) own("single_transformer_blocks." + std::to_string(i), *body_->single_blocks[i]);
  own("proj_out", body_->out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto B = sigma_B.size(0), N = config_.num_modulations(), channels = config_.time_channels / 4;
  auto time = at::cat({waves(sigma_B, channels), waves(at::zeros_like(sigma_B), channels)}, 1);  // the second of a guidance of 0
  auto number = waves(at::arange(N, sigma_B.options()), 2 * channels);
  auto all = at::cat({time.unsqueeze(1).expand({B, N, -1}), number.unsqueeze(0).expand({B, N, -1})}, -1);
  return approximator_->forward(all.to(dtype)).flatten(1);
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto width = config_.width(), num_singles = config_.num_single_blocks, num_doubles = config_.num_double_blocks;
  // One split for all blocks: its gradient is put together once.
  std::vector<int64_t> sizes(static_cast<size_t>(num_singles), 3 * width);
  sizes.resize(sizes.size() + 2 * static_cast<size_t>(num_doubles), 6 * width);
  sizes.push_back(2 * width);
  auto modulation = at::split_with_sizes(in.modulation_BM, sizes, -1);
  auto of_single = modulation.begin(), of_image = of_single + num_singles, of_text = of_image + num_doubles;

  const auto rows = in.noisy_BCHW.size(2) / 2, columns = in.noisy_BCHW.size(3) / 2;
  auto image = b.image_in.forward(mmdit::to_tokens(in.noisy_BCHW).to(in.text_BTE.scalar_type()));
  auto text = b.text_in.forward(in.text_BTE);
  const auto num_text = text.size(1);
  auto [cos, sin] = rope(config_, num_text, rows, columns, in.modulation_BM.options());
  const nn::Streams streams(shares(), {num_text, rows * columns});
  cos = streams.by_place(cos, 0);
  sin = streams.by_place(sin, 0);
  // One sample alone has nothing that is masked.
  mmdit::Further further;
  if (in.mask_BT.size(0) > 1) further.bias = streams.bias_by_place(mmdit::padding_bias(in.mask_BT, image.size(1)));
  image = streams.here(1, image);
  text = streams.here(0, text);
  for (auto& block : b.double_blocks) {
    auto out = block->run(mmdit::with_further({image, text, at::cat({*of_image++, *of_text++}, 1), cos, sin}, further));
    image = out[0];
    text = out[1];
  }
  auto tokens = at::cat({text, image}, 1);
  for (auto& block : b.single_blocks) tokens = block->run(mmdit::with_further({tokens, *of_single++, cos, sin}, further))[0];
  image = tokens.narrow(1, streams.length_here(0), streams.length_here(1));
  auto m = modulation.back().chunk(2, -1);  // shift, scale
  return mmdit::from_tokens(streams.joined(1, b.out.forward(kernels::modulated_norm(image, m[1], m[0], kChromaEps))), rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.starts_with("distilled_guidance_layer.out_proj") || path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::chroma
