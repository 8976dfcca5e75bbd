// Each makes the results of its operator, with the sizes and the order in memory that they have on the CPU, and takes and frees what memory
// the CPU's kernel takes beside them (libtorch 2.11, aten/src/ATen/native).
#include "memory/meta_ops.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "kernels/place.h"

namespace burnish::memory {

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

/// The operand that the CPU multiplies in a convolution: the input as it lies, copies in oneDNN's own order, or columns of the input
/// (use_mkldnn of Convolution.cpp).
enum class Multiplied { as_it_lies, reordered, columns };

int64_t product(at::IntArrayRef sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

bool is_ones(at::IntArrayRef numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t number) { return number == 1; });
}

Multiplied multiplied(const Tensor& input, at::IntArrayRef kernel, at::IntArrayRef stride) {
  if (!kernels::runs_on_cpu(input) || (is_ones(kernel) && is_ones(stride))) return Multiplied::as_it_lies;
  bool is_wide = kernel.size() > 1 && kernel[kernel.size() - 1] > 3 && kernel[kernel.size() - 2] > 3;
  auto counted = input.sizes().slice(0, std::min<size_t>(4, input.sizes().size()));  // what lies behind them does not count
  bool is_large = is_wide || input.size(0) > 1 || product(counted) > 20480;
  auto dtype = input.scalar_type();  // 16 bits come here where oneDNN multiplies them
  return dtype != at::kDouble && (dtype != at::kFloat || is_large) ? Multiplied::reordered : Multiplied::columns;
}

Tensor columns(const Tensor& input, at::IntArrayRef kernel, at::IntArrayRef output) {
  return at::empty({input.size(0), input.size(1) * product(kernel), product(output.slice(2))}, input.options());
}

/// A product of `a` and `b` by oneDNN: copies of both and the result in its order, and the result again as it lies when the copies are
/// gone.
Tensor reordered_product(const Tensor& a, const Tensor& b, at::IntArrayRef sizes) {
  Tensor blocked;
  {
    auto a_blocked = at::empty(a.sizes(), a.options()), b_blocked = at::empty(b.sizes(), b.options());
    blocked = at::empty(sizes, a.options());
  }
  return at::empty(sizes, a.options());
}

/// A convolution that puts places between those of its input: its weight has the channels of the input first, and the columns that the CPU
/// multiplies are of what comes out.
Tensor transposed_convolution(const Tensor& input, const Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                              at::IntArrayRef dilation, at::IntArrayRef output_padding, int64_t groups) {
  auto kernel = weight.sizes().slice(2);
  std::vector<int64_t> sizes{input.size(0), weight.size(1) * groups};
  for (size_t i = 0; i < kernel.size(); ++i) {
    auto side = input.size(static_cast<int64_t>(i) + 2);
    sizes.push_back((side - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + output_padding[i] + 1);
  }
  auto x = input.contiguous();
  if (multiplied(x, kernel, stride) == Multiplied::reordered) {
    auto once_more = at::empty(sizes, x.options());  // oneDNN computes it as the gradient of a convolution's input, of which it has a copy
    return reordered_product(x, weight, sizes);
  }
  auto workspace = at::empty({weight.size(1) * product(kernel), product(input.sizes().slice(2))}, input.options());
  return at::empty(sizes, input.options());
}

Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& /*bias*/, at::IntArrayRef stride, at::IntArrayRef padding,
                   at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  if (transposed) return transposed_convolution(input, weight, stride, padding, dilation, output_padding, groups);
  auto kernel = weight.sizes().slice(2);
  std::vector<int64_t> sizes{input.size(0), weight.size(0)};
  for (size_t i = 0; i < kernel.size(); ++i) {
    auto side = input.size(static_cast<int64_t>(i) + 2);
    sizes.push_back((side + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
  }
  auto layout = input.suggest_memory_format();
  auto x = input.contiguous(layout);
  auto way = multiplied(x, kernel, stride);
  // kernels::convolution asks oneDNN for clips of any size.
  if (way == Multiplied::columns && x.dim() == 5 && x.scalar_type() == at::kFloat) way = Multiplied::reordered;
  Tensor workspace;
  if (way == Multiplied::reordered) {
    if (layout == at::MemoryFormat::Contiguous) return reordered_product(x, weight, sizes);
    workspace = at::empty(weight.sizes(), weight.options());  // what has the channels of a place side by side is taken as it lies
  }
  if (way == Multiplied::columns) workspace = columns(x, kernel, sizes);
  return at::empty(sizes, input.options(), layout);
}

Three convolution_backward(const Tensor& dy_given, const Tensor& input, const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
                           at::IntArrayRef stride, at::IntArrayRef /*padding*/, at::IntArrayRef /*dilation*/, bool /*transposed*/,
                           at::IntArrayRef /*output_padding*/, int64_t /*groups*/, std::array<bool, 3> wanted) {
  auto dy = dy_given.contiguous(), w = weight.contiguous(), x = input.contiguous();
  auto way = multiplied(x, weight.sizes().slice(2), stride);
  auto multiply = [&](const Tensor& other, const Tensor& like) {
    return way == Multiplied::reordered ? reordered_product(dy, other, like.sizes()) : at::empty(like.sizes(), dy.options());
  };
  Tensor dx, dw, db, workspace;
  if (wanted[0]) dx = multiply(w, input);
  if (wanted[1]) {
    if (way == Multiplied::columns) workspace = columns(x, weight.sizes().slice(2), dy.sizes());
    dw = multiply(x, weight);
  }
  if (wanted[2]) db = at::empty(*bias_sizes, dy.options());
  return {dx, dw, db};
}

/// Sizes of a norm's statistics: one over the last dimensions.
std::vector<int64_t> row_sizes(const Tensor& x, at::IntArrayRef normalized) {
  auto sizes = x.sizes().vec();
  std::fill(sizes.end() - std::ssize(normalized), sizes.end(), 1);
  return sizes;
}

Three native_layer_norm(const Tensor& input, at::IntArrayRef normalized, const Optional& weight, const Optional& /*bias*/, double /*eps*/) {
  auto x = input.contiguous();
  auto statistics = x.options().dtype(weight ? weight->scalar_type() : x.scalar_type());
  auto y = at::empty_like(x);
  auto mean = at::empty(row_sizes(x, normalized), statistics);
  return {y, mean, at::empty_like(mean)};
}

Three native_layer_norm_backward(const Tensor& dy_given, const Tensor& input, at::IntArrayRef normalized, const Tensor& /*mean*/,
                                 const Tensor& /*rstd*/, const Optional& weight, const Optional& bias, std::array<bool, 3> wanted) {
  auto dy = dy_given.contiguous(), x = input.contiguous();
  Tensor dx, dw, db, sums;
  if (wanted[0]) dx = at::empty_like(x);
  if (wanted[1] && weight) dw = at::empty_like(*weight);
  if (wanted[2] && bias) db = at::empty_like(*bias);
  if (dw.defined() || db.defined()) sums = at::empty({2, at::get_num_threads(), product(normalized)}, x.options().dtype(at::kFloat));
  return {dx, dw, db};
}

Three native_group_norm(const Tensor& input, const Optional& weight, const Optional& /*bias*/, int64_t batch, int64_t /*channels*/,
                        int64_t /*pixels*/, int64_t num_groups, double /*eps*/) {
  auto x = input.contiguous();
  auto statistics = x.options().dtype(weight ? weight->scalar_type() : x.scalar_type());
  auto y = at::empty_like(x);
  auto mean = at::empty({batch, num_groups}, statistics);
  return {y, mean, at::empty_like(mean)};
}

Three native_group_norm_backward(const Tensor& dy_given, const Tensor& input, const Tensor& /*mean*/, const Tensor& /*rstd*/,
                                 const Optional& weight, int64_t batch, int64_t channels, int64_t /*pixels*/, int64_t /*num_groups*/,
                                 std::array<bool, 3> wanted) {
  auto dy = dy_given.contiguous(), x = input.contiguous();
  Tensor dx, dw, db;
  auto sums = at::empty({2, batch, channels}, x.options().dtype(at::kFloat));
  auto options = weight ? weight->options() : x.options();
  if (wanted[0]) dx = at::empty_like(x);
  if (wanted[1]) dw = at::empty({channels}, options);
  if (wanted[2]) db = at::empty({channels}, options);
  return {dx, dw, db};
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  auto sizes = x.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<size_t>(dim < 0 ? dim + x.dim() : dim)] = index.numel();
  return at::empty(sizes, x.options());
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  auto sizes = at::infer_size(condition.sizes(), at::infer_size(a.sizes(), b.sizes()));
  return at::empty(sizes, (a.dim() >= b.dim() ? a : b).options().dtype(at::result_type(a, b)));
}

Tensor logical(const Tensor& a, const Tensor& b) { return at::empty(at::infer_size(a.sizes(), b.sizes()), a.options().dtype(at::kBool)); }

Tensor& in_place(Tensor& a, const Tensor& /*b*/) { return a; }

Tensor embedding_dense_backward(const Tensor& dy, const Tensor& /*indices*/, int64_t num_rows, int64_t /*padding*/, bool /*by_frequency*/) {
  return at::empty({num_rows, dy.size(-1)}, dy.options());
}

Tensor mse_loss_backward(const Tensor& /*dy*/, const Tensor& x, const Tensor& /*target*/, int64_t /*reduction*/) {
  return at::empty_like(x);
}

Tensor bucketize(const Tensor& x, const Tensor& /*borders*/, bool out_int32, bool /*right*/) {
  return at::empty(x.sizes(), x.options().dtype(out_int32 ? at::kInt : at::kLong));
}

Tensor as_input(const Tensor& x) { return at::empty_like(x); }

Tensor scaled_mm(const Tensor& a, const Tensor& b, const Tensor& /*scale_a*/, const Tensor& /*scale_b*/, const Optional& /*bias*/,
                 const Optional& /*scale_result*/, std::optional<at::ScalarType> dtype, bool /*fast*/) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype.value_or(a.scalar_type())));
}

Tensor& int_mm(const Tensor& /*a*/, const Tensor& /*b*/, Tensor& sums) { return sums; }

void fused_adamw_(at::TensorList /*self*/, at::TensorList /*grads*/, at::TensorList /*exp_avgs*/, at::TensorList /*exp_avg_sqs*/,
                  at::TensorList /*max_exp_avg_sqs*/, at::TensorList /*steps*/, double /*lr*/, double /*beta1*/, double /*beta2*/,
                  double /*weight_decay*/, double /*eps*/, bool /*amsgrad*/, bool /*maximize*/, const Optional& /*grad_scale*/,
                  const Optional& /*found_inf*/) {}

// Attention by tiles, on the CPU and on GPUs: what is kept for backward is the result and a number a row, never a matrix of weights.

/// Rows and columns of a tile (cpu_flash_attention of FlashAttentionKernel.cpp).
std::pair<int64_t, int64_t> tile_of(int64_t rows, int64_t columns) {
  auto tile = rows >= 768 ? 256 : rows >= 192 ? 64 : 32;
  return {std::min<int64_t>(tile, rows), std::min<int64_t>(512, columns)};
}

bool is_tiled(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.dim() == 4 && q.size(3) == k.size(3) && q.size(3) == v.size(3) && q.stride(3) == 1 && k.stride(3) == 1 && v.stride(3) == 1;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Optional& mask, double dropout, bool causal,
                 std::optional<double> scale, bool /*grouped*/) {
  if (is_tiled(q, k, v) && dropout == 0 && !(mask && mask->requires_grad()))
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, std::nullopt, scale));
}

/// Tiles of the weights in 16 bits, for the next product.
Tensor rounded_tiles(const Tensor& q, const Tensor& k, int64_t count) {
  auto [rows, columns] = tile_of(q.size(2), k.size(2));
  return at::empty({q.element_size() < 4 ? at::get_num_threads() : 0, count * rows * columns}, q.options());
}

at::TensorOptions exact(const Tensor& x) { return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat); }

Pair tiled_attention(const Tensor& q, const Tensor& k, const Tensor& /*v*/, double /*dropout*/, bool /*causal*/, const Optional& /*mask*/,
                     std::optional<double> /*scale*/) {
  // The CPU answers in the order of q, GPUs with heads of a token side by side.
  auto y =
      kernels::runs_on_cpu(q) ? at::empty_like(q) : at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
  auto sums = at::empty({q.size(0), q.size(2), q.size(1)}, exact(q)).transpose(1, 2);
  if (!kernels::runs_on_cpu(q)) return {y, sums};
  auto [rows, columns] = tile_of(q.size(2), k.size(2));
  auto workspace = at::empty({at::get_num_threads(), rows * (columns + 2 + q.size(3))}, exact(q)), rounded = rounded_tiles(q, k, 1);
  return {y, sums};
}

Three tiled_attention_backward(const Tensor& /*dy*/, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& /*y*/,
                               const Tensor& /*sums*/, double /*dropout*/, bool /*causal*/, const Optional& /*mask*/,
                               std::optional<double> /*scale*/) {
  auto like = [](const Tensor& x) { return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2); };
  auto dq = like(q), dk = like(k), dv = like(v);
  if (!kernels::runs_on_cpu(q)) return {dq, dk, dv};
  auto [rows, columns] = tile_of(q.size(2), k.size(2));
  auto workspace = at::empty({at::get_num_threads(), rows * (2 * columns + 1)}, exact(q)), rounded = rounded_tiles(q, k, 2);
  return {dq, dk, dv};
}

/// The magnitude of complex numbers is real.
Tensor magnitude(const Tensor& x) { return at::empty_like(x, x.options().dtype(c10::toRealValueType(x.scalar_type()))); }

/// A Fourier transform of real numbers, of which half is left out along the last dimension where it mirrors the other half.
Tensor fft_of_real(const Tensor& x, at::IntArrayRef dims, int64_t /*normalization*/, bool is_halved) {
  auto sizes = x.sizes().vec();
  if (auto& last = sizes[static_cast<size_t>(dims.back())]; is_halved) last = last / 2 + 1;
  return at::empty(sizes, x.options().dtype(c10::toComplexType(x.scalar_type())));
}

/// The CPU's kernel keeps a buffer for its gradient.
Pair log_sigmoid_forward(const Tensor& x) { return {at::empty_like(x), at::empty_like(x)}; }

Tensor log_sigmoid_backward(const Tensor& dy, const Tensor& /*x*/, const Tensor& /*buffer*/) { return at::empty_like(dy); }

/// oneDNN's linear layer, which kernels/linear calls.
Tensor linear_pointwise(const Tensor& x, const Tensor& weight, const Optional& /*bias*/, std::string_view /*attribute*/,
                        c10::List<std::optional<at::Scalar>> /*scalars*/, std::optional<std::string_view> /*algorithm*/) {
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return at::empty(sizes, x.options());
}

}  // namespace

void register_meta_ops() {
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static torch::Library with_autograd(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__);
  static torch::Library onednn(torch::Library::IMPL, "mkldnn", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static const bool registered = [] {
    aten.impl("convolution", convolution);
    aten.impl("convolution_backward", convolution_backward);
    aten.impl("native_layer_norm", native_layer_norm);
    aten.impl("native_layer_norm_backward", native_layer_norm_backward);
    aten.impl("native_group_norm", native_group_norm);
    aten.impl("native_group_norm_backward", native_group_norm_backward);
    aten.impl("index_select", index_select);
    aten.impl("where.self", where);
    aten.impl("embedding_dense_backward", embedding_dense_backward);
    aten.impl("mse_loss_backward", mse_loss_backward);
    aten.impl("bucketize.Tensor", bucketize);
    aten.impl("abs", magnitude);
    aten.impl("_fft_r2c", fft_of_real);
    aten.impl("logical_or", logical);
    aten.impl("logical_or_", in_place);
    aten.impl("relu", as_input);
    aten.impl("log_sigmoid_forward", log_sigmoid_forward);
    aten.impl("log_sigmoid_backward", log_sigmoid_backward);
    aten.impl("_scaled_mm", scaled_mm);
    aten.impl("_int_mm.out", int_mm);
    aten.impl("_fused_adamw_", fused_adamw_);
    aten.impl("_scaled_dot_product_flash_attention_for_cpu", tiled_attention);
    aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", tiled_attention_backward);
    aten.impl("scaled_dot_product_attention", attention);
    with_autograd.impl("scaled_dot_product_attention", attention);
    onednn.impl("_linear_pointwise", linear_pointwise);
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace burnish::memory
