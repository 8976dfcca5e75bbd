#include "models/families/wan/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "kernels/gelu_tanh/gelu_tanh.h"
#include "models/blocks/padding_row.h"
#include "models/blocks/patch_tokens.h"
#include "models/blocks/waves.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/sources.h"
#include "models/families/wan/talk.h"
#include "nn/modulation_in_fp32.h"
#include "nn/recomputed_values.h"

namespace burnish::models::wan {

namespace {

constexpr double kImageEps = 1e-5;

/// Runs linear, tanh-GELU, linear: linear_1 and linear_2.
class TextEmbedder : public nn::Module {
 public:
  TextEmbedder(const Config& c, const at::TensorOptions& o) : first_(c.caption_width, c.width(), o), second_(c.width(), c.width(), o) {
    own("linear_1", first_);
    own("linear_2", second_);
  }
  at::Tensor forward(const at::Tensor& x) const { return second_.forward(kernels::gelu_tanh(first_.forward(x))); }

 private:
  nn::Linear first_, second_;
};

/// Makes of CLIP's states what blocks attend to: norm, linear, GELU, linear, norm.
class ImageEmbedder : public nn::Module {
 public:
  ImageEmbedder(const Config& c, const at::TensorOptions& o)
      : norm1_(c.image_width, kImageEps, o),
        up_(c.image_width, c.image_width, o),
        down_(c.image_width, c.width(), o),
        norm2_(c.width(), kImageEps, o) {
    own("norm1", norm1_);
    own("ff.net.0.proj", up_);
    own("ff.net.2", down_);
    own("norm2", norm2_);
    if (c.extras.image_places == 0) return;
    places_ = at::empty({1, c.extras.image_places, c.image_width}, o);
    own("pos_embed", places_);
  }
  at::Tensor forward(at::Tensor x_BNW) const {
    if (places_.defined()) x_BNW = x_BNW + places_.narrow(1, 0, x_BNW.size(1));
    return norm2_.forward(down_.forward(at::gelu(up_.forward(norm1_.forward(x_BNW)))));
  }

 private:
  nn::LayerNorm norm1_;
  nn::Linear up_, down_;
  nn::LayerNorm norm2_;
  at::Tensor places_;
};

/// The first places, by frame, row and column, and the distance of frames.
struct Places {
  int64_t frame = 0, row = 0, column = 0, stride = 1;
  std::optional<int64_t> given = {};  ///< place of a first frame that stands elsewhere, before those that are counted
};

/// Rotary tables [L, P] of tokens by frame, row and column.
std::pair<at::Tensor, at::Tensor> rope(const Config& c, int64_t frames, int64_t rows, int64_t columns, const at::TensorOptions& options,
                                       const Places& from = {}) {
  auto opts = options.dtype(at::kDouble);
  auto counted = [&](int64_t count, int64_t begin, int64_t stride) { return at::arange(begin, begin + count * stride, stride, opts); };
  auto along = [&](const at::Tensor& places, at::IntArrayRef shape) {
    return places.view(shape).expand({frames, rows, columns}).reshape({-1});
  };
  auto of_frames = counted(frames - (from.given ? 1 : 0), from.frame, from.stride);
  if (from.given) of_frames = at::cat({at::full({1}, static_cast<double>(*from.given), opts), of_frames});
  return mmdit::rotary_tables(
      {along(of_frames, {-1, 1, 1}), along(counted(rows, from.row, 1), {1, -1, 1}), along(counted(columns, from.column, 1), {1, 1, -1})},
      c.axes_dims(), kRopeTheta);
}

std::vector<std::unique_ptr<Block>> blocks_of(const Config& c, const at::TensorOptions& o) {
  if (!c.extras.driving.is_read) return mmdit::several<Block>(c.num_layers, c, o);
  std::vector<std::unique_ptr<Block>> blocks;
  for (auto& block : mmdit::several<DrivenBlock>(c.num_layers, c, o)) blocks.push_back(std::move(block));
  return blocks;
}

/// The block that a driven model leaves out where guidance leads away (diffusers: is_uncondtion).
constexpr size_t kSkippedBlock = 9;

}  // namespace

struct Transformer::Time {
  Time(const Config& c, const at::TensorOptions& o)
      : embedder(c.time_channels, c.width(), o.dtype(at::kFloat)), projection(c.width(), kModulations * c.width(), o.dtype(at::kFloat)) {}
  mmdit::EmbedMlp embedder;
  nn::Linear projection;
};

struct Transformer::Body {
  Body(const Config& c, const at::TensorOptions& o)
      : patch_in(c.in_channels, c.width(), kernels::Window{{1, kPatch, kPatch}, {1, kPatch, kPatch}, {0, 0, 0}, {1, 1, 1}}, o),
        text(c, o),
        image(c.image_width > 0 ? std::make_unique<ImageEmbedder>(c, o) : nullptr),
        blocks(blocks_of(c, o)),
        table(at::empty({1, 2, c.width()}, o.dtype(at::kFloat))),
        out(c.width(), c.out_channels * kPatch * kPatch, o) {
    if (c.extras.has_reference) reference_in = std::make_unique<nn::Conv2d>(c.out_channels, c.width(), kPatch, kPatch, 0, o);
    if (c.extras.speech.is_there()) extra.speech = std::make_unique<Speech>(c, o);
    if (c.extras.has_camera) extra.camera = std::make_unique<CameraAdapter>(c.width(), o);
    if (c.extras.talk.is_there()) extra.said = std::make_unique<SaidInFrames>(c.extras.talk, o);
    if (c.extras.area_channels > 0) extra.scail = std::make_unique<Scail>(c, o);
  }
  nn::Conv patch_in;
  TextEmbedder text;
  std::unique_ptr<ImageEmbedder> image;
  std::vector<std::unique_ptr<Block>> blocks;
  at::Tensor table;  ///< [1, 2, D], fp32: shift and scale of the last norm
  nn::Linear out;
  std::unique_ptr<nn::Conv2d> reference_in;  ///< of latents of a reference picture, to a frame of tokens
  struct {
    std::unique_ptr<CameraAdapter> camera;
    std::unique_ptr<Speech> speech;
    std::unique_ptr<Scail> scail;
    std::unique_ptr<SaidInFrames> said;
  } extra;  ///< what some have and others have not
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.body) {
    body_ = std::make_unique<Body>(c, options);
    own("patch_embedding", body_->patch_in);
  }
  if (part.modulation) {
    time_ = std::make_unique<Time>(c, options);
    own("condition_embedder.time_embedder", time_->embedder);
    own("condition_embedder.time_proj", time_->projection);
  }
  if (!body_) return;
  own("condition_embedder.text_embedder", body_->text);
  if (body_->image) own("condition_embedder.image_embedder", *body_->image);
  for (size_t i = 0; i < body_->blocks.size(); ++i) own("blocks." + std::to_string(i), *body_->blocks[i]);
  own("scale_shift_table", body_->table);
  own("proj_out", body_->out);
  if (body_->reference_in) own("ref_conv", *body_->reference_in);
  if (body_->extra.camera) own("control_adapter", *body_->extra.camera);
  if (body_->extra.speech) own("", *body_->extra.speech);
  if (body_->extra.scail) own("", *body_->extra.scail);
  if (body_->extra.said) own("audio_proj", *body_->extra.said);
}

Transformer::~Transformer() = default;

Speech& Transformer::speech() { return *body_->extra.speech; }

std::vector<nn::Block*> Transformer::blocks() const {
  std::vector<nn::Block*> all;
  if (!body_) return all;
  for (size_t i = 0; i < body_->blocks.size(); ++i) {
    all.push_back(body_->blocks[i].get());
    if (auto* behind = body_->extra.speech ? body_->extra.speech->behind(static_cast<int64_t>(i)) : nullptr) all.push_back(behind);
  }
  return all;
}

at::Tensor Transformer::modulate(const at::Tensor& sigma_B) const {
  auto embedded = time_->embedder.forward(waves(sigma_B.to(at::kDouble) * 1000.0, config_.time_channels));
  return at::cat({time_->projection.forward(at::silu(embedded)), embedded}, -1);
}

void Transformer::run_blocks(nn::Tensors& inputs, bool has_given, const Hints& hints) {
  const auto hint_of = hints ? hints(inputs) : nullptr;
  for (size_t i = 0; i < body_->blocks.size(); ++i) {
    auto out = body_->blocks[i]->run(inputs);
    inputs.front() = out[0];
    if (has_given) inputs.back() = out[1];
    if (!hint_of) continue;
    if (auto hint = hint_of(static_cast<int64_t>(i), inputs.front()); hint.defined()) inputs.front() = inputs.front() + hint;
  }
}

void Transformer::run_driven_blocks(nn::Tensors& inputs, const Inputs& in) {
  const auto own = std::ssize(inputs);
  for (auto& input : of_clip(*in.clip)) inputs.push_back(std::move(input));
  const auto is_negative = in.is_negative_B.defined() ? in.is_negative_B.view({-1, 1, 1}).gt(0) : at::Tensor();
  for (size_t i = 0; i < body_->blocks.size(); ++i) {
    auto out = body_->blocks[i]->run(inputs);
    const bool is_skipped = i == kSkippedBlock && is_negative.defined();
    inputs.front() = is_skipped ? at::where(is_negative, inputs.front(), out[0]) : out[0];
    inputs[static_cast<size_t>(own)] = out[1];
  }
}

/// Returns what stands in a block's inputs for a clip: what it does for the tokens that are denoised.
nn::Tensors Transformer::of_clip(const Inputs::Clip& clip) const {
  const auto& b = *body_;
  const auto dtype = clip.text_BTE.scalar_type();
  const auto patches = b.patch_in.forward(clip.latents_BCFHW.to(dtype));
  const auto frames = patches.size(2), rows = patches.size(3), columns = patches.size(4);
  auto from = [&](size_t axis, int64_t count) {
    return config_.extras.driving.offsets[axis] < 0 ? count : config_.extras.driving.offsets[axis];
  };
  auto [cos, sin] = rope(config_, frames, rows, columns, clip.modulation_BM.options(),
                         {from(0, frames), from(1, rows), from(2, columns), config_.extras.driving.stride});
  const auto tokens = patches.flatten(2).transpose(1, 2).contiguous();
  return {nn::Streams(shares(), {tokens.size(1)}).here(0, tokens),
          clip.modulation_BM.unsqueeze(1).narrow(-1, 0, kModulations * config_.width()),
          b.text.forward(clip.text_BTE),
          bias_of_counts(clip.counts_BT),
          cos,
          sin,
          b.image->forward(clip.image_BNW.to(dtype))};
}

at::Tensor Transformer::tokens_of(const Inputs& in) const {
  const auto& b = *body_;
  const auto dtype = in.text_BTE.scalar_type();
  if (in.cast) return b.extra.scail->tokens(*in.cast, in.noisy_BCFHW, b.patch_in, dtype);
  auto patches = b.patch_in.forward(in.noisy_BCFHW.to(dtype));
  if (in.rays_BKFHW.defined()) patches = patches + b.extra.camera->forward(in.rays_BKFHW.to(dtype));
  if (in.added_BDFHW.defined()) patches = patches + in.added_BDFHW;
  nn::Tensors runs;
  if (in.reference_BCHW.defined()) runs.push_back(b.reference_in->forward(in.reference_BCHW.to(dtype)).flatten(2));
  for (const auto& source : in.sources_BCFHW) runs.push_back(b.patch_in.forward(source.to(dtype)).flatten(2));
  runs.push_back(patches.flatten(2));
  return at::cat(runs, 2).transpose(1, 2).contiguous();
}

/// Returns the rotary tables [L, P] of all tokens.
std::pair<at::Tensor, at::Tensor> Transformer::tables_of(const Inputs& in) const {
  const auto options = in.modulation_BM.options();
  auto of_latents = [&](const at::Tensor& latents, int64_t num_before, const Places& from) {
    return rope(config_, num_before + latents.size(2), latents.size(3) / kPatch, latents.size(4) / kPatch, options, from);
  };
  const auto& noisy = in.noisy_BCFHW;
  if (in.cast) return Scail::tables(config_, *in.cast, noisy.size(3) / kPatch, noisy.size(4) / kPatch);
  auto own = of_latents(noisy, in.reference_BCHW.defined() ? 1 : 0, {.given = in.given_place});
  if (in.sources_BCFHW.empty()) return own;
  nn::Tensors cos, sin;
  const auto numbers = source_numbers(in.sources_BCFHW.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto turned = turned_by_source(of_latents(in.sources_BCFHW[i], 0, {}), numbers[i]);
    cos.push_back(turned.first);
    sin.push_back(turned.second);
  }
  cos.push_back(own.first);
  sin.push_back(own.second);
  return {at::cat(cos), at::cat(sin)};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto width = config_.width(), of_blocks = kModulations * width;
  const auto frames = in.noisy_BCFHW.size(2), rows = in.noisy_BCFHW.size(3) / kPatch, columns = in.noisy_BCFHW.size(4) / kPatch;
  const auto of_frame = rows * columns;
  auto num_before = of_frame * (in.cast ? in.cast->pictures_BCRHW.size(2) : in.reference_BCHW.defined() ? 1 : 0);
  for (const auto& source : in.sources_BCFHW) num_before += source.select(1, 0).select(0, 0).numel() / (kPatch * kPatch);
  const bool has_given = in.num_given > 0;
  auto modulation = has_given ? at::stack({in.modulation_BM, in.given_modulation_BM}, 1) : in.modulation_BM.unsqueeze(1);

  auto tokens = tokens_of(in);
  const auto num_given = in.num_given * of_frame, num_noisy = tokens.size(1) - num_given;
  auto [cos, sin] = tables_of(in);
  const nn::Streams streams(shares(), has_given ? std::vector<int64_t>{num_given, num_noisy} : std::vector<int64_t>{num_noisy});
  const size_t noisy_run = has_given ? 1 : 0;
  auto noisy = streams.here(noisy_run, has_given ? tokens.narrow(1, num_given, num_noisy).contiguous() : tokens);

  nn::Tensors inputs{noisy,
                     modulation.narrow(-1, 0, of_blocks),
                     b.text.forward(in.text_BTE),
                     bias_of_counts(in.counts_BT),
                     streams.by_place(cos, 0),
                     streams.by_place(sin, 0)};
  if (b.image) inputs.push_back(b.image->forward(in.image_BNW.to(in.text_BTE.scalar_type())));
  if (b.extra.said) inputs.push_back(b.extra.said->forward(in.states_BFM.to(in.text_BTE.scalar_type())));
  if (has_given) inputs.push_back(streams.here(0, tokens.narrow(1, 0, num_given).contiguous()));
  if (in.clip) run_driven_blocks(inputs, in);
  else run_blocks(inputs, has_given, in.hints);

  // A given frame's prediction is never read; it is predicted all the same, as a frame of the latents' shape.
  auto last = b.table.flatten(1).unsqueeze(1) + modulation.narrow(-1, of_blocks, width).repeat({1, 1, 2});
  auto predicted = [&](const at::Tensor& x, int64_t row, size_t run) {
    auto m = last.select(1, row).chunk(2, -1);  // shift, scale
    return streams.joined(run, b.out.forward(nn::modulated(x, m[1], m[0], kTokenEps)));
  };
  auto all = predicted(inputs.front(), 0, noisy_run);
  if (has_given) all = at::cat({predicted(inputs.back(), 1, 0), all}, 1);
  return clip_of_channels_last_tokens(all.narrow(1, num_before, frames * of_frame), frames, rows, columns);
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path.ends_with("scale_shift_table") || path.starts_with("condition_embedder.time_proj.") || path.starts_with("proj_out.") ||
           path.find(".audio_cross_attn.proj.") != path.npos || Speech::begins_as_zero(path);
  });
  if (body_ && body_->extra.speech) body_->extra.speech->initialise();
}

}  // namespace burnish::models::wan
