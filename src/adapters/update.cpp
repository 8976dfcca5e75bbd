#include "adapters/update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/kron.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>

#include "adapters/rank_mask.h"
#include "base/input_error.h"
#include "kernels/channel_gain/channel_gain.h"
#include "kernels/hadamard_low_rank/hadamard_low_rank.h"
#include "kernels/kronecker/kronecker.h"
#include "kernels/linear/linear.h"

namespace burnish::adapters {

namespace {

/// Sums of squares over rows or columns of a weight whose rows `rows` gives.
at::Tensor sums_of_squares(const nn::WeightSource& weight, NormAxis axis, const nn::WeightSource::Rows& rows) {
  at::NoGradGuard no_grad;
  auto options = at::TensorOptions().dtype(at::kFloat).device(weight.device());
  auto sums = at::zeros({axis == NormAxis::output ? weight.out_features() : weight.in_features()}, options);
  nn::for_each_tile(weight, [&](int64_t begin, int64_t end) {
    auto tile = rows(begin, end);
    if (axis == NormAxis::output) {
      sums.narrow(0, begin, end - begin).copy_(tile.square().sum(1));
    } else {
      sums.add_(tile.square().sum(0));
    }
  });
  return sums;
}

at::Tensor with_gain(const at::Tensor& x, const at::Tensor& gain, const kernels::Product& product) {
  return gain.defined() ? kernels::input_gain(x, gain, product.channel_dim()) : x;
}

class LoraUpdate : public AddedUpdate {
 public:
  LoraUpdate(Parameters parameters, double scale, RowRange fused_rows) : AddedUpdate(scale, fused_rows) {
    parameters_ = std::move(parameters);
    a_ = parameter("lora_A.weight");
    b_ = parameter("lora_B.weight");
  }
  Kind kind() const override { return Kind::lora; }
  int64_t rank() const override { return a_.size(0); }
  Sides sides() const override { return {b_.size(0), a_.size(1)}; }

  std::optional<kernels::FrozenLayer> as_frozen_layer(const nn::LinearMap& base, const at::Tensor& bias) const override {
    auto weight = base.frozen();
    const auto ranks = RankMask::ranks_of(rank());
    if (!weight || ranks.size() > 1) return std::nullopt;
    auto [a, b] = factors(ranks.empty() ? rank() : ranks[0]);
    return kernels::FrozenLayer{.weight = std::move(weight), .bias = bias, .a = a, .b = b, .scale = scale_now()};
  }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    const auto ranks = RankMask::ranks_of(rank());
    if (ranks.size() < 2) return add_ranks(base_out, x, gain, ranks.empty() ? rank() : ranks[0], product);
    const auto count = std::ssize(ranks);
    if (x.size(0) % count != 0)
      config_error("adapters", "tlora_min_rank masks ranks by sample, and a layer sees {} rows of {} samples; set batch_size to 1",
                   x.size(0), count);
    const auto out_of_samples = base_out.chunk(count), x_of_samples = x.chunk(count);
    std::vector<at::Tensor> sums;
    for (size_t i = 0; i < ranks.size(); ++i) sums.push_back(add_ranks(out_of_samples[i], x_of_samples[i], gain, ranks[i], product));
    return at::cat(sums);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    return at::mm(own_rows(b_).narrow(0, begin, end - begin), a_).mul_(scale());
  }

  /// ‖w + s b A‖² = ‖w‖² + 2s b·(A w) + s² b (A Aᵀ) bᵀ for a row; the same with A and Bᵀ exchanged for a column.
  /// Only the middle term passes through W. It is small beside ‖w‖², so rounding it to bf16 moves the norm less than rounding the layer's
  /// result does.
  at::Tensor squared_norms(const nn::WeightSource& base, const at::Tensor& frozen, NormAxis axis, c10::ScalarType dtype) const override {
    at::NoGradGuard no_grad;
    bool by_row = axis == NormAxis::output;
    auto b = own_rows(b_);
    auto factor = by_row ? b : a_.t();  // [out or in, rank]
    auto other = by_row ? a_.t() : b;
    auto cross = by_row ? nn::times_columns(base, other, dtype) : nn::transposed_times_columns(base, other, dtype);
    auto sums = at::addmm(cross, factor, at::mm(other.t(), other), 2 * scale(), scale() * scale());
    return sums.mul_(factor).sum(1).add_(frozen);
  }

 private:
  /// A and B of the first ranks.
  std::pair<at::Tensor, at::Tensor> factors(int64_t count) const {
    if (count == rank()) return {a_, own_rows(b_)};
    return {a_.narrow(0, 0, count), own_rows(b_).narrow(1, 0, count).contiguous()};
  }

  at::Tensor add_ranks(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain, int64_t count,
                       const kernels::ProductPtr& product) const {
    auto [a, b] = factors(count);
    // (x ∘ gain) Aᵀ = x (A ∘ gain)ᵀ: x is saved, which other operators save too, and not a scaled copy of it.
    if (gain.defined()) a = (a.unflatten(1, {gain.size(0), -1}) * gain.unsqueeze(1)).flatten(1);
    return kernels::add_low_rank(base_out, x, a, b, scale_now(), product);
  }

  at::Tensor a_, b_;
};

class LohaUpdate : public AddedUpdate {
 public:
  LohaUpdate(Parameters parameters, double scale, RowRange fused_rows) : AddedUpdate(scale, fused_rows) {
    parameters_ = std::move(parameters);
    p1_ = parameter("hada_w1_a");
    q1_ = parameter("hada_w1_b");
    p2_ = parameter("hada_w2_a");
    q2_ = parameter("hada_w2_b");
  }
  Kind kind() const override { return Kind::loha; }
  int64_t rank() const override { return q1_.size(0); }
  Sides sides() const override { return {p1_.size(0), q1_.size(1)}; }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    return kernels::add_hadamard_low_rank(base_out, with_gain(x, gain, *product), own_rows(p1_), q1_, own_rows(p2_), q2_, scale_now(),
                                          product);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto count = end - begin;
    auto p1 = own_rows(p1_).narrow(0, begin, count), p2 = own_rows(p2_).narrow(0, begin, count);
    return at::mm(p1, q1_).mul_(at::mm(p2, q2_)).mul_(scale());
  }

 private:
  at::Tensor p1_, q1_, p2_, q2_;
};

class LokrUpdate : public AddedUpdate {
 public:
  LokrUpdate(Parameters parameters, double scale, RowRange fused_rows) : AddedUpdate(scale, fused_rows) {
    parameters_ = std::move(parameters);
    for (const char* factor : {"lokr_w1", "lokr_w2"}) {
      if (!has(factor)) rank_ = parameter(std::string(factor) + "_b").size(0);
    }
  }
  Kind kind() const override { return Kind::lokr; }
  int64_t rank() const override { return rank_; }
  Sides sides() const override {
    auto end = [&](const std::string& name, const char* part, int64_t dim) { return parameter(has(name) ? name : name + part).size(dim); };
    return {end("lokr_w1", "_a", 0) * end("lokr_w2", "_a", 0), end("lokr_w1", "_b", 1) * end("lokr_w2", "_b", 1)};
  }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    auto w1 = factor("lokr_w1"), w2 = factor("lokr_w2"), seen = with_gain(x, gain, *product);
    auto dim = product->channel_dim();
    auto begin = fused_rows().begin, count = base_out.size(dim);
    auto [first, last] = groups_over(begin, begin + count, w2.size(0));
    auto some = w1.narrow(0, first, last - first);
    if ((last - first) * w2.size(0) == count) return kernels::add_kronecker(base_out, seen, some, w2, scale_now(), product);
    // The rows start or end within a row of W1: all that these rows of W1 make is computed, and the rest of it left out.
    auto sizes = base_out.sizes().vec();
    sizes[sizes.size() + dim] = (last - first) * w2.size(0);
    auto all = kernels::add_kronecker(at::zeros(sizes, base_out.options()), seen, some, w2, scale_now(), product);
    return base_out + all.narrow(dim, begin - first * w2.size(0), count);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    begin += fused_rows().begin;
    end += fused_rows().begin;
    auto w1 = factor("lokr_w1"), w2 = factor("lokr_w2");
    auto [first, last] = groups_over(begin, end, w2.size(0));
    auto some = at::kron(w1.narrow(0, first, last - first) * scale(), w2);
    return some.narrow(0, begin - first * w2.size(0), end - begin);
  }

 private:
  /// The rows of W1 that make rows begin to end of ΔW, `rows` from each.
  static std::pair<int64_t, int64_t> groups_over(int64_t begin, int64_t end, int64_t rows) {
    return {begin / rows, (end + rows - 1) / rows};
  }

  at::Tensor factor(const std::string& name) const {
    return has(name) ? parameter(name) : at::mm(parameter(name + "_a"), parameter(name + "_b"));
  }
  int64_t rank_ = 0;
};

class FullUpdate : public AddedUpdate {
 public:
  FullUpdate(Parameters parameters, double scale, RowRange fused_rows) : AddedUpdate(scale, fused_rows) {
    parameters_ = std::move(parameters);
    diff_ = parameter("diff");
  }
  Kind kind() const override { return Kind::full; }
  Sides sides() const override { return {diff_.size(0), diff_.size(1)}; }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    auto diff = own_rows(diff_);
    if (scale_now() != 1) diff = diff * scale_now();
    auto kernels = diff.to(x.scalar_type()).view(product->weight_sizes(diff.size(0), diff.size(1)));
    return base_out + product->multiply(with_gain(x, gain, *product), kernels, {});
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    return own_rows(diff_.detach()).narrow(0, begin, end - begin) * scale();
  }

 private:
  at::Tensor diff_;
};

class OftUpdate : public Update {
 public:
  OftUpdate(Parameters parameters, double scale, RowRange fused_rows) : Update(scale, fused_rows) {
    parameters_ = std::move(parameters);
    blocks_ = parameter("oft_blocks");
  }
  Kind kind() const override { return Kind::oft; }
  int64_t rank() const override { return blocks_.size(1); }
  Sides sides() const override { return {blocks_.size(0), -1}; }
  bool needs_weight() const override { return true; }
  bool splits_at(int64_t row) const override { return row % rank() == 0; }

  at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& seen) const override {
    auto out = base.multiply(x, {});
    auto turned = out + turn(seen.is_same(x) ? out : base.multiply(seen, {}), base.product()->channel_dim());
    return base.bias.defined() ? turned + along_channels(base.bias, base.product()->channel_dim()) : turned;
  }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto b = rank(), first = begin / b, last = (end + b - 1) / b;
    auto w_KBI = weight.rows(first * b, last * b).unflatten(0, {-1, b});
    auto turned = at::bmm(excess(scale()).narrow(0, first, last - first).transpose(1, 2), w_KBI).flatten(0, 1);
    return turned.narrow(0, begin - first * b, end - begin);
  }

 private:
  /// scale (R - I) of every block, [blocks, b, b]. R - I = (I - Q)⁻¹ 2 Q, which keeps its digits where R is near I.
  at::Tensor excess(double scale) const {
    auto blocks = own_rows(blocks_).unflatten(0, {-1, rank()});
    auto q = blocks - blocks.transpose(1, 2);
    return at::linalg_solve(at::eye(rank(), q.options()) - q, q * (2 * scale));
  }

  /// y (R - I), with the channels of y in dimension `dim`.
  at::Tensor turn(const at::Tensor& y, int64_t dim) const {
    auto last = dim == -1 ? y : y.movedim(dim, -1);
    auto dtype = kernels::product_dtype(y);
    auto y_KNB = last.flatten(0, -2).unflatten(1, {-1, rank()}).transpose(0, 1).to(dtype);
    auto turned = at::bmm(y_KNB, excess(scale_now()).to(dtype)).transpose(0, 1).flatten(1).view(last.sizes()).to(y.scalar_type());
    return dim == -1 ? turned : turned.movedim(-1, dim);
  }

  static at::Tensor along_channels(const at::Tensor& bias, int64_t dim) {
    std::vector<int64_t> sizes(static_cast<size_t>(-dim), 1);
    sizes[0] = bias.size(0);
    return bias.view(sizes);
  }

  at::Tensor blocks_;
};

}  // namespace

at::Tensor AddedUpdate::forward(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& seen) const {
  return seen.is_same(x) ? with_base(base, x, base.bias) : add_to(base.base(x), seen, {}, base.product());
}

at::Tensor AddedUpdate::with_base(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& bias) const {
  if (auto layer = as_frozen_layer(base, bias)) return kernels::frozen_layers(x, {*layer}, base.product())[0];
  return add_to(base.multiply(x, bias), x, {}, base.product());
}

at::Tensor AddedUpdate::squared_norms(const nn::WeightSource& base, const at::Tensor&, NormAxis axis, c10::ScalarType) const {
  return sums_of_squares(base, axis, [&](int64_t begin, int64_t end) { return base.rows(begin, end) + rows(base, begin, end); });
}

std::unique_ptr<Update> make_update(Kind kind, Parameters parameters, double scale, RowRange fused_rows) {
  switch (kind) {
    case Kind::lora: return std::make_unique<LoraUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::loha: return std::make_unique<LohaUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::lokr: return std::make_unique<LokrUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::full: return std::make_unique<FullUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::oft:
      if (parameters.size() != 1 || parameters[0].first != "oft_blocks") return nullptr;
      return std::make_unique<OftUpdate>(std::move(parameters), scale, fused_rows);
    default: return nullptr;
  }
}

at::Tensor squared_norms(const nn::WeightSource& weight, NormAxis axis) {
  return sums_of_squares(weight, axis, [&](int64_t begin, int64_t end) { return weight.rows(begin, end); });
}

}  // namespace burnish::adapters
