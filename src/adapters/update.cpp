#include "adapters/update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/kron.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/channel_gain/channel_gain.h"
#include "kernels/hadamard_low_rank/hadamard_low_rank.h"
#include "kernels/kronecker/kronecker.h"
#include "kernels/low_rank/low_rank.h"

namespace burnish::adapters {

std::string_view kind_name(Kind kind) { return kind == Kind::lora ? "lora" : kind == Kind::loha ? "loha" : "lokr"; }

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

class LoraUpdate : public Update {
 public:
  LoraUpdate(Parameters parameters, double scale, RowRange fused_rows) : Update(scale, fused_rows) {
    parameters_ = std::move(parameters);
    a_ = parameter("lora_A.weight");
    b_ = parameter("lora_B.weight");
  }
  Kind kind() const override { return Kind::lora; }
  int64_t rank() const override { return a_.size(0); }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    // (x ∘ gain) Aᵀ = x (A ∘ gain)ᵀ: x is saved, which other operators save too, and not a scaled copy of it.
    auto a = gain.defined() ? (a_.unflatten(1, {gain.size(0), -1}) * gain.unsqueeze(1)).flatten(1) : a_;
    return kernels::add_low_rank(base_out, x, a, own_rows(b_), scale(), product);
  }

  at::Tensor rows(int64_t begin, int64_t end) const override {
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
  at::Tensor a_, b_;
};

class LohaUpdate : public Update {
 public:
  LohaUpdate(Parameters parameters, double scale, RowRange fused_rows) : Update(scale, fused_rows) {
    parameters_ = std::move(parameters);
    p1_ = parameter("hada_w1_a");
    q1_ = parameter("hada_w1_b");
    p2_ = parameter("hada_w2_a");
    q2_ = parameter("hada_w2_b");
  }
  Kind kind() const override { return Kind::loha; }
  int64_t rank() const override { return q1_.size(0); }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    return kernels::add_hadamard_low_rank(base_out, with_gain(x, gain, *product), own_rows(p1_), q1_, own_rows(p2_), q2_, scale(), product);
  }

  at::Tensor rows(int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto count = end - begin;
    auto p1 = own_rows(p1_).narrow(0, begin, count), p2 = own_rows(p2_).narrow(0, begin, count);
    return at::mm(p1, q1_).mul_(at::mm(p2, q2_)).mul_(scale());
  }

 private:
  at::Tensor p1_, q1_, p2_, q2_;
};

class LokrUpdate : public Update {
 public:
  LokrUpdate(Parameters parameters, double scale, RowRange fused_rows) : Update(scale, fused_rows) {
    parameters_ = std::move(parameters);
    for (const char* factor : {"lokr_w1", "lokr_w2"}) {
      if (!has(factor)) rank_ = parameter(std::string(factor) + "_b").size(0);
    }
  }
  Kind kind() const override { return Kind::lokr; }
  int64_t rank() const override { return rank_; }

  at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                    const kernels::ProductPtr& product) const override {
    auto w1 = factor("lokr_w1"), w2 = factor("lokr_w2"), seen = with_gain(x, gain, *product);
    auto dim = product->channel_dim();
    auto begin = fused_rows().begin, count = base_out.size(dim);
    auto [first, last] = groups_over(begin, begin + count, w2.size(0));
    auto some = w1.narrow(0, first, last - first);
    if ((last - first) * w2.size(0) == count) return kernels::add_kronecker(base_out, seen, some, w2, scale(), product);
    // The rows start or end within a row of W1: all that these rows of W1 make is computed, and the rest of it left out.
    auto sizes = base_out.sizes().vec();
    sizes[sizes.size() + dim] = (last - first) * w2.size(0);
    auto all = kernels::add_kronecker(at::zeros(sizes, base_out.options()), seen, some, w2, scale(), product);
    return base_out + all.narrow(dim, begin - first * w2.size(0), count);
  }

  at::Tensor rows(int64_t begin, int64_t end) const override {
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

}  // namespace

at::Tensor Update::squared_norms(const nn::WeightSource& base, const at::Tensor&, NormAxis axis, c10::ScalarType) const {
  return sums_of_squares(base, axis, [&](int64_t begin, int64_t end) { return base.rows(begin, end) + rows(begin, end); });
}

bool Update::has(std::string_view name) const {
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.first == name; });
}

at::Tensor Update::own_rows(const at::Tensor& factor) const {
  return fused_rows_.count > 0 ? factor.narrow(0, fused_rows_.begin, fused_rows_.count) : factor;
}

const at::Tensor& Update::parameter(std::string_view name) const {
  for (const auto& [known, tensor] : parameters_) {
    if (known == name) return tensor;
  }
  throw std::logic_error("an update without its " + std::string(name));
}

std::unique_ptr<Update> make_update(Kind kind, Parameters parameters, double scale, RowRange fused_rows) {
  switch (kind) {
    case Kind::lora: return std::make_unique<LoraUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::loha: return std::make_unique<LohaUpdate>(std::move(parameters), scale, fused_rows);
    case Kind::lokr: break;
  }
  return std::make_unique<LokrUpdate>(std::move(parameters), scale, fused_rows);
}

at::Tensor squared_norms(const nn::WeightSource& weight, NormAxis axis) {
  return sums_of_squares(weight, axis, [&](int64_t begin, int64_t end) { return weight.rows(begin, end); });
}

}  // namespace burnish::adapters
