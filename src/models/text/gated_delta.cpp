#include "models/text/gated_delta.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

namespace burnish::models::text {

namespace {

constexpr int64_t kChunk = 64;
constexpr double kUnitEps = 1e-6;

/// Brings the last dimension to the length 1.
at::Tensor unit(const at::Tensor& x) { return x * at::rsqrt((x * x).sum(-1, /*keepdim=*/true) + kUnitEps); }

/// In fp32, or as it is where it has more bits.
at::Tensor exact(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

/// [B, L, H, ...] -> [B, H, N, kChunk, ...], exact, with zeros behind the last token, which change no state.
at::Tensor in_chunks(const at::Tensor& x_BLH) {
  auto x_BHL = exact(x_BLH).transpose(1, 2);
  const auto missing = (kChunk - x_BHL.size(2) % kChunk) % kChunk;
  if (missing > 0) x_BHL = x_BHL.dim() == 3 ? at::constant_pad_nd(x_BHL, {0, missing}) : at::constant_pad_nd(x_BHL, {0, 0, 0, missing});
  return x_BHL.unflatten(2, {-1, kChunk});
}

/// Solves (I + what is below the diagonal) x = y. On the meta device, where no operator does, a product has the shape and keeps as much.
at::Tensor solved_by(const at::Tensor& lower, const at::Tensor& y) {
  if (y.is_meta()) return at::matmul(lower, y);
  return at::linalg_solve_triangular(lower, y, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
}

at::Tensor transposed(const at::Tensor& x) { return x.transpose(-1, -2); }

}  // namespace

at::Tensor gated_delta_rule(const DeltaTokens& t) {
  const auto length = t.value_BLHV.size(1), num_keys = t.key_BLGK.size(-1), num_values = t.value_BLHV.size(-1);
  const auto shared = t.value_BLHV.size(2) / t.key_BLGK.size(2);
  // n: chunks; i, j: tokens of a chunk.
  const auto q_BHniK = unit(in_chunks(t.query_BLGK)).repeat_interleave(shared, 1) / std::sqrt(static_cast<double>(num_keys));
  const auto k_BHniK = unit(in_chunks(t.key_BLGK)).repeat_interleave(shared, 1);
  const auto v_BHniV = in_chunks(t.value_BLHV);
  const auto beta_BHni1 = in_chunks(t.beta_BLH).unsqueeze(-1);
  const auto faded_BHni = at::cumsum(in_chunks(t.log_decay_BLH), -1);
  const auto faded_BHni1 = faded_BHni.unsqueeze(-1);
  // A change by token j has faded so much when token i reads it; a later one is not there yet.
  const auto is_later = at::ones({kChunk, kChunk}, faded_BHni.options().dtype(at::kBool)).triu(1);
  const auto fading_BHnij = (faded_BHni1 - faded_BHni.unsqueeze(-2)).masked_fill(is_later, -std::numeric_limits<double>::infinity()).exp();

  const auto by_others = at::matmul(k_BHniK * beta_BHni1, transposed(k_BHniK)) * fading_BHnij;
  const auto written = at::cat({v_BHniV, k_BHniK * faded_BHni1.exp()}, -1) * beta_BHni1;
  const auto solved = solved_by(by_others, written).split_with_sizes({num_values, num_keys}, -1);
  const auto own_BHnij = at::matmul(q_BHniK, transposed(k_BHniK)) * fading_BHnij;
  const auto q_of_state = q_BHniK * faded_BHni1.exp();
  const auto last_BHn1 = faded_BHni.narrow(-1, kChunk - 1, 1);
  const auto k_at_end = transposed(k_BHniK * (last_BHn1 - faded_BHni).exp().unsqueeze(-1));
  const auto fading_of_chunk = last_BHn1.exp().unsqueeze(-1);

  auto state_BHKV = at::zeros({v_BHniV.size(0), v_BHniV.size(1), num_keys, num_values}, v_BHniV.options());
  std::vector<at::Tensor> out;
  for (int64_t n = 0; n < v_BHniV.size(2); ++n) {
    auto of = [n](const at::Tensor& x) { return x.select(2, n); };
    const auto change = of(solved[0]) - at::matmul(of(solved[1]), state_BHKV);
    out.push_back(at::matmul(of(q_of_state), state_BHKV) + at::matmul(of(own_BHnij), change));
    state_BHKV = state_BHKV * of(fading_of_chunk) + at::matmul(of(k_at_end), change);
  }
  return at::cat(out, 2).narrow(2, 0, length).transpose(1, 2);
}

GatedDelta::GatedDelta(const GatedLayers& c, int64_t width, double eps, const at::TensorOptions& options)
    : config_(c),
      qkv_(width, c.num_convolved(), options, false),
      z_(width, c.num_value_heads * c.value_dim, options, false),
      b_(width, c.num_value_heads, options, false),
      a_(width, c.num_value_heads, options, false),
      out_(c.num_value_heads * c.value_dim, width, options, false),
      conv_weight_(at::empty({c.num_convolved(), 1, c.kernel}, options)),
      a_log_(at::empty({c.num_value_heads}, options)),
      dt_bias_(at::empty({c.num_value_heads}, options)),
      norm_(c.value_dim, eps, options) {
  own("in_proj_qkv", qkv_);
  own("in_proj_z", z_);
  own("in_proj_b", b_);
  own("in_proj_a", a_);
  own("out_proj", out_);
  own("conv1d.weight", conv_weight_);
  own("A_log", a_log_);
  own("dt_bias", dt_bias_);
  own("norm", norm_);
}

at::Tensor GatedDelta::convolved(const at::Tensor& x_BLC) const {
  auto before = at::constant_pad_nd(x_BLC.transpose(1, 2), {config_.kernel - 1, 0});
  auto weight = conv_weight_.to(before.scalar_type());
  return at::silu(at::conv1d(before, weight, at::Tensor(), at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1},
                             /*groups=*/before.size(1)))
      .transpose(1, 2);
}

at::Tensor GatedDelta::forward(const at::Tensor& x_BLE) const {
  const auto& c = config_;
  const auto projected = nn::forward_all({&qkv_, &z_, &b_, &a_}, x_BLE);
  const auto key_width = c.num_key_heads * c.key_dim;
  const auto qkv = convolved(projected[0]).split_with_sizes({key_width, key_width, c.num_value_heads * c.value_dim}, -1);
  auto heads = [](const at::Tensor& x, int64_t count) { return x.unflatten(-1, {count, -1}); };
  auto time_step = at::softplus(exact(projected[3]) + exact(dt_bias_));
  auto out = gated_delta_rule({.query_BLGK = heads(qkv[0], c.num_key_heads),
                               .key_BLGK = heads(qkv[1], c.num_key_heads),
                               .value_BLHV = heads(qkv[2], c.num_value_heads),
                               .log_decay_BLH = -exact(a_log_).exp() * time_step,
                               .beta_BLH = at::sigmoid(exact(projected[2]))});
  auto normed = at::rms_norm(out, norm_.weight.sizes(), exact(norm_.weight), norm_.eps());
  auto gated = normed * at::silu(exact(heads(projected[1], c.num_value_heads)));
  return out_.forward(gated.flatten(2).to(x_BLE.scalar_type()));
}

}  // namespace burnish::models::text
