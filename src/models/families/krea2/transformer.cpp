#include "models/families/krea2/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/gelu_tanh/gelu_tanh.h"
#include "models/blocks/mmdit.h"
#include "models/families/krea2/blocks.h"

namespace burnish::models::krea2 {

namespace {

/// Rotary tables of a text's tokens, which all sit at the origin, and of pictures' at their rows and columns, each in its frame.
std::pair<at::Tensor, at::Tensor> rope(const Config& c, int64_t num_text, const std::vector<at::Tensor>& pictures, bool have_frames,
                                       const at::TensorOptions& options) {
  auto opts = options.dtype(at::kDouble);
  std::vector<at::Tensor> frames{at::zeros({num_text}, opts)}, all_rows = frames, all_columns = frames;
  for (size_t i = 0; i < pictures.size(); ++i) {
    const auto rows = pictures[i].size(2) / 2, columns = pictures[i].size(3) / 2;
    frames.push_back(at::full({rows * columns}, have_frames ? static_cast<double>(i) : 0, opts));
    all_rows.push_back(at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).flatten());
    all_columns.push_back(at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).flatten());
  }
  return mmdit::rotary_tables({at::cat(frames), at::cat(all_rows), at::cat(all_columns)}, c.axes_dims, c.rope_theta);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : time_in(mmdit::kTimeChannels, c.width(), o), time_out(c.width(), c.width(), o), of_blocks(c.width(), 6 * c.width(), o) {}
  nn::Linear time_in, time_out, of_blocks;
};

struct Transformer::Text {
  Text(const Config& c, const at::TensorOptions& o)
      : layerwise(mmdit::several<FusionBlock>(c.num_layerwise_blocks, c, o)),
        projector(c.num_caption_layers, 1, o, false),
        refiner(mmdit::several<FusionBlock>(c.num_refiner_blocks, c, o)),
        norm(c.caption_width, c.norm_eps, o),
        in(c.caption_width, c.width(), o),
        out(c.width(), c.width(), o) {}
  std::vector<std::unique_ptr<FusionBlock>> layerwise;
  nn::Linear projector;
  std::vector<std::unique_ptr<FusionBlock>> refiner;
  Norm norm;
  nn::Linear in, out;
};

struct Transformer::Body {
  struct Last {
    Last(const Config& c, const at::TensorOptions& o)
        : table(at::empty({2, c.width()}, o)), norm(c.width(), c.norm_eps, o), out(c.width(), c.in_channels, o) {}
    at::Tensor table;
    Norm norm;
    nn::Linear out;
  };
  Body(const Config& c, int64_t begin, int64_t end, const at::TensorOptions& o)
      : blocks(mmdit::several<MainBlock>(std::min(end, c.num_layers) - begin, c, o)) {
    if (begin == 0) image_in = std::make_unique<nn::Linear>(c.in_channels, c.width(), o);
    if (end > c.num_layers) last = std::make_unique<Last>(c, o);
  }
  std::unique_ptr<nn::Linear> image_in;
  std::vector<std::unique_ptr<MainBlock>> blocks;
  std::unique_ptr<Last> last;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  auto own_stack = [this](const std::string& name, auto& blocks, int64_t number = 0) {
    for (auto& block : blocks) own(name + "." + std::to_string(number++), *block);
  };
  if (part.modulation) {
    modulation_ = std::make_unique<Modulation>(c, options);
    own("time_embed.linear_1", modulation_->time_in);
    own("time_embed.linear_2", modulation_->time_out);
    own("time_mod_proj", modulation_->of_blocks);
  }
  if (part.text) {
    text_ = std::make_unique<Text>(c, options);
    own_stack("text_fusion.layerwise_blocks", text_->layerwise);
    own("text_fusion.projector", text_->projector);
    own_stack("text_fusion.refiner_blocks", text_->refiner);
    own("txt_in.norm", text_->norm);
    own("txt_in.linear_1", text_->in);
    own("txt_in.linear_2", text_->out);
  }
  if (!part.body) return;
  body_ = std::make_unique<Body>(c, part.begin, part.end < 0 ? c.num_layers + 1 : part.end, options);
  if (body_->image_in) own("img_in", *body_->image_in);
  own_stack("transformer_blocks", body_->blocks, part.begin);
  if (!body_->last) return;
  own("final_layer.scale_shift_table", body_->last->table);
  own("final_layer.norm", body_->last->norm);
  own("final_layer.linear", body_->last->out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool for_clean_references) const {
  const auto& m = *modulation_;
  auto embedded = [&](const at::Tensor& sigma) {
    return m.time_out.forward(kernels::gelu_tanh(m.time_in.forward(mmdit::time_projection(sigma, dtype))));
  };
  auto of_blocks = [&](const at::Tensor& time_BD) { return m.of_blocks.forward(kernels::gelu_tanh(time_BD)); };
  auto time_BD = embedded(sigma_B);
  nn::Tensors all{of_blocks(time_BD), time_BD};
  if (for_clean_references) all.push_back(of_blocks(embedded(at::zeros_like(sigma_B))));
  return at::cat(all, -1);
}

at::Tensor Transformer::fuse(const at::Tensor& states_BTNE, const at::Tensor& mask_BT) const {
  const auto& t = *text_;
  auto states = states_BTNE.flatten(0, 1);
  for (const auto& block : t.layerwise) states = block->run({states})[0];
  auto text = t.projector.forward(states.transpose(1, 2).contiguous()).squeeze(-1).view({states_BTNE.size(0), states_BTNE.size(1), -1});
  nn::Tensors inputs{text};
  // One sample alone has nothing that is masked.
  if (mask_BT.size(0) > 1) inputs.push_back(mmdit::padding_bias(mask_BT, 0));
  for (const auto& block : t.refiner) inputs[0] = block->run(inputs)[0];
  auto normed = t.norm.before([&](const at::Tensor& x) { return nn::Tensors{t.in.forward(x)}; }, {{inputs[0]}})[0];
  return t.out.forward(kernels::gelu_tanh(normed));
}

/// The tokens of the text and of all pictures, as they enter the first block or leave the last one before these.
std::pair<at::Tensor, at::Tensor> Transformer::tokens_of(const Inputs& in, const std::vector<at::Tensor>& pictures) const {
  const auto num_text = in.mask_BT.size(1);
  if (!body_->image_in) return {in.hidden_BLD.narrow(1, 0, num_text), in.hidden_BLD.narrow(1, num_text, in.hidden_BLD.size(1) - num_text)};
  std::vector<at::Tensor> tokens;
  for (const auto& picture : pictures) tokens.push_back(mmdit::to_tokens(picture).to(in.text_BTD.scalar_type()));
  return {in.text_BTD, body_->image_in->forward(tokens.size() == 1 ? tokens[0] : at::cat(tokens, 1))};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto rows = in.noisy_BCHW.size(2) / 2, columns = in.noisy_BCHW.size(3) / 2, num_text = in.mask_BT.size(1);
  const auto width = config_.width(), num_target = rows * columns;
  std::vector<at::Tensor> pictures{in.noisy_BCHW};
  pictures.insert(pictures.end(), in.references.begin(), in.references.end());
  auto [text, image] = tokens_of(in, pictures);
  const auto num_image = image.size(1);
  const bool have_frames = in.modulation_BM.size(1) > 7 * width, are_apart = have_frames && !in.references.empty();
  std::vector<int64_t> lengths{num_text, num_image};
  at::Tensor references;
  if (are_apart) {
    references = image.narrow(1, num_target, num_image - num_target).contiguous();
    image = image.narrow(1, 0, num_target).contiguous();
    lengths = {num_text, num_target, num_image - num_target};
  }
  const nn::Streams streams(shares(), lengths);
  auto [cos, sin] = rope(config_, num_text, pictures, have_frames, in.modulation_BM.options());
  auto of_blocks = in.modulation_BM.narrow(1, 0, 6 * width);
  if (are_apart) of_blocks = at::cat({of_blocks, in.modulation_BM.narrow(1, 7 * width, 6 * width)}, 1);
  nn::Tensors inputs{at::cat({streams.here(0, text), streams.here(1, image)}, 1), of_blocks, streams.by_place(cos, 0),
                     streams.by_place(sin, 0)};
  if (are_apart) inputs.push_back(streams.here(2, references));
  if (in.mask_BT.size(0) > 1) inputs.push_back(streams.bias_by_place(mmdit::padding_bias(in.mask_BT, num_image)));
  for (auto& block : b.blocks) {
    auto out = block->run(inputs);
    inputs[0] = out[0];
    if (are_apart) inputs[4] = out[1];
  }

  if (!b.last) return are_apart ? at::cat({inputs[0], inputs[4]}, 1) : inputs[0];
  auto num_here = streams.length_here(1);
  image = inputs[0].narrow(1, inputs[0].size(1) - num_here, num_here);
  // Of a picture that is whole here, what lies behind the target is not read.
  if (streams.are_whole() && num_here > num_target) image = image.narrow(1, 0, num_target);
  const auto m = (in.modulation_BM.narrow(1, 6 * width, width).unsqueeze(1) + b.last->table).unbind(1);  // scale, shift
  auto out =
      b.last->norm.before([&](const at::Tensor& normed) { return nn::Tensors{b.last->out.forward(normed)}; }, {{image, m[0], m[1]}})[0];
  out = streams.joined(1, out);
  return mmdit::from_tokens(out.size(1) > num_target ? out.narrow(1, 0, num_target) : out, rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.find("norm") != path.npos || path.ends_with("scale_shift_table") || path.starts_with("time_mod_proj.") ||
           path.starts_with("final_layer.");
  });
}

}  // namespace burnish::models::krea2
