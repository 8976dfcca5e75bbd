#include "adapters/update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/kron.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/channel_gain/channel_gain.h"
#include "kernels/hadamard_low_rank/hadamard_low_rank.h"
#include "kernels/kronecker/kronecker.h"
#include "kernels/linear/linear.h"
#include "kernels/low_rank/low_rank.h"

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
  LoraUpdate(Parameters parameters, double scale) : AddedUpdate(scale) {
    parameters_ = std::move(parameters);
    a_ = parameter("lora_A.weight");
    b_ = parameter("lora_B.weight");
  }
  Kind kind() const override { return Kind::lora; }
  int64_t rank() const override { return a_.size(0); }
  Sides sides() const override { return {b_.size(0), a_.size(1)}; }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    // (x ∘ gain) Aᵀ = x (A ∘ gain)ᵀ: x is saved, which other operators save too, and not a scaled copy of it.
    auto a = gain.defined() ? (a_.unflatten(1, {gain.size(0), -1}) * gain.unsqueeze(1)).flatten(1) : a_;
    return kernels::add_low_rank(base_out, x, a, b_, scale(), product);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    return at::mm(b_.narrow(0, begin, end - begin), a_).mul_(scale());
  }

  /// ‖w + s b A‖² = ‖w‖² + 2s b·(A w) + s² b (A Aᵀ) bᵀ for a row; the same with A and Bᵀ exchanged for a column.
  /// Only the middle term passes through W. It is small beside ‖w‖², so rounding it to bf16 moves the norm less than rounding the layer's
  /// result does.
  at::Tensor squared_norms(const nn::WeightSource& base, const at::Tensor& frozen, NormAxis axis, c10::ScalarType dtype) const override {
    at::NoGradGuard no_grad;
    bool by_row = axis == NormAxis::output;
    auto factor = by_row ? b_ : a_.t();  // [out or in, rank]
    auto other = by_row ? a_.t() : b_;
    auto cross = by_row ? nn::times_columns(base, other, dtype) : nn::transposed_times_columns(base, other, dtype);
    auto sums = at::addmm(cross, factor, at::mm(other.t(), other), 2 * scale(), scale() * scale());
    return sums.mul_(factor).sum(1).add_(frozen);
  }

 private:
  at::Tensor a_, b_;
};

class LohaUpdate : public AddedUpdate {
 public:
  LohaUpdate(Parameters parameters, double scale) : AddedUpdate(scale) {
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
    return kernels::add_hadamard_low_rank(base_out, with_gain(x, gain, *product), p1_, q1_, p2_, q2_, scale(), product);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto count = end - begin;
    return at::mm(p1_.narrow(0, begin, count), q1_).mul_(at::mm(p2_.narrow(0, begin, count), q2_)).mul_(scale());
  }

 private:
  at::Tensor p1_, q1_, p2_, q2_;
};

class LokrUpdate : public AddedUpdate {
 public:
  LokrUpdate(Parameters parameters, double scale) : AddedUpdate(scale) {
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
    return kernels::add_kronecker(base_out, with_gain(x, gain, *product), factor("lokr_w1"), factor("lokr_w2"), scale(), product);
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto w1 = factor("lokr_w1"), w2 = factor("lokr_w2");
    auto first = begin / w2.size(0), last = (end + w2.size(0) - 1) / w2.size(0);
    auto some = at::kron(w1.narrow(0, first, last - first) * scale(), w2);
    return some.narrow(0, begin - first * w2.size(0), end - begin);
  }

 private:
  at::Tensor factor(const std::string& name) const {
    return has(name) ? parameter(name) : at::mm(parameter(name + "_a"), parameter(name + "_b"));
  }
  int64_t rank_ = 0;
};

class FullUpdate : public AddedUpdate {
 public:
  FullUpdate(Parameters parameters, double scale) : AddedUpdate(scale) {
    parameters_ = std::move(parameters);
    diff_ = parameter("diff");
  }
  Kind kind() const override { return Kind::full; }
  Sides sides() const override { return {diff_.size(0), diff_.size(1)}; }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    auto diff = (scale() == 1 ? diff_ : diff_ * scale()).to(x.scalar_type()).view(product->weight_sizes(diff_.size(0), diff_.size(1)));
    return base_out + product->multiply(with_gain(x, gain, *product), diff, {});
  }

  at::Tensor rows(const nn::WeightSource&, int64_t begin, int64_t end) const override {
    return diff_.detach().narrow(0, begin, end - begin) * scale();
  }

 private:
  at::Tensor diff_;
};

class OftUpdate : public Update {
 public:
  OftUpdate(Parameters parameters, double scale) : Update(scale) {
    parameters_ = std::move(parameters);
    blocks_ = parameter("oft_blocks");
  }
  Kind kind() const override { return Kind::oft; }
  int64_t rank() const override { return blocks_.size(1); }
  Sides sides() const override { return {blocks_.size(0), -1}; }
  bool needs_weight() const override { return true; }

  at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& seen) const override {
    auto out = base.multiply(x, {});
    auto turned = out + turn(seen.is_same(x) ? out : base.multiply(seen, {}), base.product()->channel_dim());
    return base.bias.defined() ? turned + along_channels(base.bias, base.product()->channel_dim()) : turned;
  }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto b = rank(), first = begin / b, last = (end + b - 1) / b;
    auto w_KBI = weight.rows(first * b, last * b).unflatten(0, {-1, b});
    auto turned = at::bmm(excess().narrow(0, first, last - first).transpose(1, 2), w_KBI).flatten(0, 1);
    return turned.narrow(0, begin - first * b, end - begin);
  }

 private:
  /// scale (R - I) of every block, [blocks, b, b]. R - I = (I - Q)⁻¹ 2 Q, which keeps its digits where R is near I.
  at::Tensor excess() const {
    auto blocks = blocks_.unflatten(0, {-1, rank()});
    auto q = blocks - blocks.transpose(1, 2);
    return at::linalg_solve(at::eye(rank(), q.options()) - q, q * (2 * scale()));
  }

  /// y (R - I), with the channels of y in dimension `dim`.
  at::Tensor turn(const at::Tensor& y, int64_t dim) const {
    auto last = dim == -1 ? y : y.movedim(dim, -1);
    auto dtype = kernels::product_dtype(y);
    auto y_KNB = last.flatten(0, -2).unflatten(1, {-1, rank()}).transpose(0, 1).to(dtype);
    auto turned = at::bmm(y_KNB, excess().to(dtype)).transpose(0, 1).flatten(1).view(last.sizes()).to(y.scalar_type());
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
  return add_to(base.base(x), seen, {}, base.product());
}

at::Tensor AddedUpdate::squared_norms(const nn::WeightSource& base, const at::Tensor&, NormAxis axis, c10::ScalarType) const {
  return sums_of_squares(base, axis, [&](int64_t begin, int64_t end) { return base.rows(begin, end) + rows(base, begin, end); });
}

std::unique_ptr<Update> make_update(Kind kind, Parameters parameters, double scale) {
  switch (kind) {
    case Kind::lora: return std::make_unique<LoraUpdate>(std::move(parameters), scale);
    case Kind::loha: return std::make_unique<LohaUpdate>(std::move(parameters), scale);
    case Kind::lokr: return std::make_unique<LokrUpdate>(std::move(parameters), scale);
    case Kind::full: return std::make_unique<FullUpdate>(std::move(parameters), scale);
    case Kind::oft:
      if (parameters.size() == 1 && parameters[0].first == "oft_blocks") return std::make_unique<OftUpdate>(std::move(parameters), scale);
      return nullptr;
    default: return nullptr;
  }
}

at::Tensor squared_norms(const nn::WeightSource& weight, NormAxis axis) {
  return sums_of_squares(weight, axis, [&](int64_t begin, int64_t end) { return weight.rows(begin, end); });
}

}  // namespace burnish::adapters
