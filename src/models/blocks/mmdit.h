#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

// Parts of diffusion transformers that run pictures and texts in two streams with one attention (Esser et al. 2024, arXiv 2403.03206).
// Shape letters: B batch, I image tokens, T text tokens, L = T + I, D width, H heads, P rotated pairs of a head.
namespace burnish::models::mmdit {

/// The layers that a transformer holds. The modulation, which makes shifts, scales and gates of the time, needs no tokens, so it can be
/// run, loaded and dropped apart from the body. Either may be of some blocks alone, counted in order of execution, double blocks first:
/// from block `begin` to before `end`. All that comes before the blocks belongs to a part that begins at 0. What comes after them counts as
/// one more block. Layers that make tokens of a text may be apart as well.
struct HeldLayers {
  bool modulation = true, body = true;
  int64_t begin = 0, end = -1;  ///< -1: all that follow
  bool text = true;
};
/// Returns the layers of a part by its name in units: "….modulation", "….text" and "….body" are one of the three, others all.
HeldLayers layers_of_part(const std::string& name);

/// The blocks that a part holds of each stack of a transformer whose stacks run one behind the other.
struct HeldStacks {
  struct Stack {
    int64_t first = 0, count = 0;  ///< first: counted within its stack

    int64_t end() const { return first + count; }
  };
  std::vector<Stack> stacks;
  bool begins = false, ends = false;  ///< whether what comes before all blocks is held, and what comes behind them
};
/// `counts`: how many blocks each stack has.
HeldStacks held_stacks(const HeldLayers& part, const std::vector<int64_t>& counts);

/// Makes so many modules of a kind, all with equal arguments.
template <class T, class... Arguments>
std::vector<std::unique_ptr<T>> several(int64_t count, const Arguments&... arguments) {
  std::vector<std::unique_ptr<T>> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(std::make_unique<T>(arguments...));
  return all;
}

/// Computes sinusoids [B, 256] of 1000·t: [cos | sin], 128 frequencies falling from 1 to 1/10000 (diffusers: Timesteps, flip_sin_to_cos).
at::Tensor time_projection(const at::Tensor& t_B, at::ScalarType dtype);
inline constexpr int64_t kTimeChannels = 256;

/// Computes rotary tables {cos, sin} [L, P] in fp32 for the places of L tokens along several axes, each of which has a share of every head:
/// `dims`; of places [B, L] tables [B, L, P]. Places are fp64, and so is what is computed of them (diffusers: get_1d_rotary_pos_embed).
std::pair<at::Tensor, at::Tensor> rotary_tables(const std::vector<at::Tensor>& places, const std::vector<int64_t>& dims, double theta);

/// Runs linear, SiLU, linear: it embeds timestep, guidance and pooled text; its layers are linear_1 and linear_2.
class EmbedMlp : public nn::Module {
 public:
  EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options, bool with_biases = true);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear linear_1_, linear_2_;
};

/// Sizes and kinds of a block's layers: its heads side by side are as wide as its tokens.
struct Widths {
  int64_t num_heads, head_dim;
  int64_t hidden;           ///< width between the layers of the MLPs
  bool with_biases = true;  ///< whether linear layers have biases
  bool is_gated = false;    ///< whether the MLPs are gated by SiLU
  int64_t width() const { return num_heads * head_dim; }
};

/// Computes SiLU of the first half of the last dimension, times the second half (Shazeer 2020, arXiv 2002.05202).
at::Tensor swiglu(const at::Tensor& x);

/// Runs linear, tanh-GELU, linear (net.0.proj and net.2), or linear, swiglu, linear (linear_in and linear_out), as diffusers names them.
class FeedForward : public nn::Module, public nn::GoesByTokens {
 public:
  FeedForward(const Widths& widths, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  bool is_gated_;
  nn::Linear up_, down_;
};

/// Makes query, key and value of one token stream, with the RMS norm of query and key per head.
class StreamQkv : public nn::Module {
 public:
  struct Names {
    const char *q, *k, *v, *norm_q, *norm_k;
  };
  static constexpr Names kImage{"to_q", "to_k", "to_v", "norm_q", "norm_k"};
  static constexpr Names kText{"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"};
  StreamQkv(const Widths& widths, const at::TensorOptions& options, const Names& names);

  /// Projects x [B, L, D] -> {query, key, value [B, L, heads, D/heads]}, and behind them what `beside` gives, which reads x too.
  nn::Tensors project(const at::Tensor& x_BLD, const nn::Linear* beside = nullptr) const;
  /// Returns the weights of the norms of query and key.
  nn::Tensors norm_weights() const { return {norm_q_.weight, norm_k_.weight}; }

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_;
  nn::RMSNorm norm_q_, norm_k_;
};

// Blocks make these values anew for backward (nn::recomputed).
/// Norms and modulates {x [B,L,D], scale, shift}, given once or for several runs of tokens -> {the results, one behind the other}.
nn::Tensors normed_by(const nn::Tensors& in);
/// Norms and rotates {query, key [B,L,H,D/H], norm weights, cos, sin [L,P]} -> {query, key [B,H,L,D/H]}, ready for attention.
nn::Tensors heads_of(const nn::Tensors& in);
/// Makes of {query, key, value and weights of norms of text, the same of image, cos, sin} query, key and value of all tokens, text first.
nn::Tensors joint_heads(const nn::Tensors& in);

/// The tensors that a block's attention can have beside its tokens.
struct Further {
  at::Tensor bias;          ///< bias of attention, broadcast to [B,H,L,L]; undefined: none
  at::Tensor keys, values;  ///< [B,H,N,D/H], attended to apart, the result added (IP-Adapter, arXiv 2308.06721); undefined: nothing
};
/// Returns a block's inputs with the defined tensors of `further` behind them.
nn::Tensors with_further(nn::Tensors inputs, const Further& further);
/// Returns what stands behind the first `count` of a block's inputs.
Further further_in(const nn::Tensors& inputs, size_t count);

/// Runs joint attention over separate image and text streams, text first. Inputs and outputs of `body`: {image [B,I,D], text [B,T,D],
/// modulation of image and text [B,12D], cos, sin [T+I,P], and Further} -> {image, text}. Further keys are attended to by image tokens
/// alone, with queries that have no place. Image tokens that are modulated otherwise stand apart, and I counts them: their modulation is
/// behind that of the text [B,18D], and they are the input behind sin and the last output. Where tokens are shared out, inputs are this
/// place's, but cos, sin and Further, which are of all tokens in the order of places (nn/token_shares.h).
class DoubleBlock : public nn::Block, public nn::SharesTokens {
 public:
  /// The names of the two streams' MLPs.
  struct Names {
    const char *image_mlp, *text_mlp;
  };
  DoubleBlock(const Widths& widths, const at::TensorOptions& options, const Names& names);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  StreamQkv image_qkv_, text_qkv_;
  nn::Linear to_out_, to_add_out_;
  FeedForward image_mlp_, text_mlp_;
};

/// Runs attention and MLP side by side over text and image tokens in one stream, named attn, proj_mlp and proj_out. {tokens [B,L,D],
/// modulation [B,3D], cos, sin [L,P], and Further} -> {tokens}. Further keys are attended to by all tokens, with queries in their places.
/// Tokens are shared out as in DoubleBlock.
class SingleBlock : public nn::Block, public nn::SharesTokens, public nn::GoesByTokens {
 public:
  SingleBlock(const Widths& widths, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  /// Makes of what attention gave [B, H, L, E] and the MLP's hidden numbers what is added to the tokens.
  at::Tensor joined(const at::Tensor& attended_BHLE, const at::Tensor& hidden) const;

  StreamQkv qkv_;
  nn::Linear proj_mlp_, proj_out_;
};

/// Turns latents [B, C, H, W] -> [B, H/2 · W/2, 4 C], each 2×2 patch into one token; and tokens back into latents.
at::Tensor to_tokens(const at::Tensor& latents_BCHW);
at::Tensor from_tokens(const at::Tensor& tokens_BIC, int64_t rows, int64_t columns);

/// Makes a bias of attention [B, 1, 1, T + I] in fp32: zero on what is read, the picture too, and minus infinity where mask [B, T] is 0.
at::Tensor padding_bias(const at::Tensor& mask_BT, int64_t num_image);

/// Fills the parameters of a transformer for training from scratch: Xavier for matrices, one for weights of norms, zero for biases and for
/// layers below paths of which `begins_as_zero` is true: modulations and the last layer (DiT, arXiv 2212.09748). `seed` fixes the draw.
void initialise(nn::Module& transformer, uint64_t seed, const std::function<bool(const std::string& path)>& begins_as_zero);

}  // namespace burnish::models::mmdit
