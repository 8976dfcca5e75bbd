#include "adapters/make_change.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <stdexcept>

#include "adapters/update.h"

namespace burnish::adapters {

namespace {

at::Tensor all_rows(const nn::WeightSource& weight) { return weight.rows(0, weight.out_features()); }

class Rotation : public Change {
 public:
  Rotation(Kind kind, Parameters parameters, double scale, RowRange fused_rows) : Change(scale, fused_rows), kind_(kind) {
    parameters_ = std::move(parameters);
    turns_rows_ = has("row_rotation");
    stages_ = parameter(turns_rows_ ? "row_rotation" : "column_rotation");
  }
  Kind kind() const override { return kind_; }
  int64_t rank() const override { return stages_.size(3); }
  Sides sides() const override {
    auto turned = stages_.size(1) * stages_.size(2);
    if (turns_rows_) return {turned, -1};
    return {has("rescale") ? parameter("rescale").size(0) : -1, turned};
  }
  bool splits_at(int64_t row) const override { return !turns_rows_ || (!has("order") && row % rank() == 0); }
  bool needs_weight() const override { return true; }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto w = turns_rows_ ? all_rows(weight) : weight.rows(begin, end);
    auto turned = turns_rows_ ? w : w.t();
    for (int64_t i = 0; i < stages_.size(0); ++i) turned = turn(turned, i);
    if (!turns_rows_) turned = turned.t();
    if (has("rescale")) {
      auto rescale = own_rows(parameter("rescale"));
      turned = turned * (turns_rows_ ? rescale : rescale.narrow(0, begin, end - begin)).unsqueeze(1);
    }
    turned = turned - w;
    return turns_rows_ ? turned.narrow(0, begin, end - begin) : turned;
  }

 private:
  /// Rows of v under one stage.
  at::Tensor turn(const at::Tensor& v, int64_t stage) const {
    auto order = has("order") ? parameter("order").select(0, stage).to(at::kLong) : at::Tensor();
    auto taken = order.defined() ? v.index_select(0, order) : v;
    auto blocks = taken.unflatten(0, {-1, rank()});
    auto turned = (blocks + (at::bmm(rotations(stage), blocks) - blocks) * scale()).flatten(0, 1);
    return order.defined() ? at::empty_like(turned).index_copy_(0, order, turned) : turned;
  }

  /// The blocks of one stage that turn this change's rows, or all columns.
  at::Tensor rotations(int64_t stage) const {
    auto all = stages_.select(0, stage);
    bool is_part = turns_rows_ && fused_rows().count > 0;
    return is_part ? all.narrow(0, fused_rows().begin / rank(), fused_rows().count / rank()) : all;
  }

  Kind kind_;
  bool turns_rows_;
  at::Tensor stages_;
};

class Gain : public Change {
 public:
  Gain(Parameters parameters, double scale, RowRange fused_rows) : Change(scale, fused_rows) {
    parameters_ = std::move(parameters);
    by_row_ = has("row_gain");
    gain_ = parameter(by_row_ ? "row_gain" : "column_gain");
  }
  Kind kind() const override { return Kind::ia3; }
  Sides sides() const override { return by_row_ ? Sides{.out = gain_.size(0)} : Sides{.in_channels = gain_.size(0)}; }
  bool needs_weight() const override { return true; }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    auto w = weight.rows(begin, end);
    if (by_row_) return w * own_rows(gain_).narrow(0, begin, end - begin) * scale();
    return (w.unflatten(1, {gain_.size(0), -1}) * gain_).flatten(1) * scale();
  }

 private:
  bool by_row_;
  at::Tensor gain_;
};

class Glora : public Change {
 public:
  Glora(Parameters parameters, double scale, RowRange fused_rows) : Change(scale, fused_rows) { parameters_ = std::move(parameters); }
  Kind kind() const override { return Kind::glora; }
  int64_t rank() const override { return parameter("b2.weight").size(0); }
  Sides sides() const override {
    auto channels = scales_weights() ? -1 : parameter("a1.weight").size(0);
    return {parameter("b1.weight").size(0), parameter("b2.weight").size(1), channels};
  }
  bool needs_weight() const override { return true; }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto product = [&](const char* left, const char* right) {
      return at::mm(own_rows(parameter(left)).narrow(0, begin, end - begin), parameter(right));
    };
    auto w = weight.rows(begin, end);
    auto first = scales_weights() ? w * product("g1.weight", "g2.weight") : mixed(w);
    return (first + product("b1.weight", "b2.weight")) * scale();
  }

 private:
  bool scales_weights() const { return has("g1.weight"); }
  /// W A: input channels are mixed, each number of a kernel by itself.
  at::Tensor mixed(const at::Tensor& w) const {
    const auto& a1 = parameter("a1.weight");
    auto w_OCA = w.unflatten(1, {a1.size(0), -1});
    auto mixed = at::mm(at::mm(w_OCA.transpose(1, 2).flatten(0, 1), a1), parameter("a2.weight"));
    return mixed.unflatten(0, {w.size(0), -1}).transpose(1, 2).flatten(1);
  }
};

class Tlora : public Change {
 public:
  Tlora(Parameters parameters, double scale) : Change(scale) { parameters_ = std::move(parameters); }
  Kind kind() const override { return Kind::tlora; }
  int64_t rank() const override { return parameter("q_layer.weight").size(0); }
  Sides sides() const override { return {parameter("p_layer.weight").size(0), parameter("q_layer.weight").size(1)}; }
  bool splits_at(int64_t) const override { return false; }
  bool needs_weight() const override { return true; }

  at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const override {
    at::NoGradGuard no_grad;
    auto now = at::mm(parameter("p_layer.weight") * parameter("lambda_layer"), parameter("q_layer.weight"));
    return ((now - cut(all_rows(weight))) * scale()).narrow(0, begin, end - begin);
  }

 private:
  /// W with its `rank` largest singular values alone: projected on the largest eigenvectors of W Wᵀ or Wᵀ W, whichever is smaller, in fp64
  /// because squaring costs half of the digits.
  at::Tensor cut(const at::Tensor& w) const {
    auto exact = w.to(at::kDouble);
    bool is_wide = w.size(0) <= w.size(1);
    auto square = is_wide ? at::mm(exact, exact.t()) : at::mm(exact.t(), exact);
    auto rank = std::min(this->rank(), square.size(0));
    auto largest = std::get<1>(at::linalg_eigh(square)).narrow(1, square.size(0) - rank, rank);  // in ascending order
    auto projected = is_wide ? at::mm(largest, at::mm(largest.t(), exact)) : at::mm(at::mm(exact, largest), largest.t());
    return projected.to(at::kFloat);
  }
};

}  // namespace

std::unique_ptr<Change> make_change(Kind kind, Parameters parameters, double scale, RowRange fused_rows) {
  if (auto update = make_update(kind, parameters, scale, fused_rows)) return update;
  switch (kind) {
    case Kind::oft:
    case Kind::boft: return std::make_unique<Rotation>(kind, std::move(parameters), scale, fused_rows);
    case Kind::ia3: return std::make_unique<Gain>(std::move(parameters), scale, fused_rows);
    case Kind::glora: return std::make_unique<Glora>(std::move(parameters), scale, fused_rows);
    case Kind::tlora: return std::make_unique<Tlora>(std::move(parameters), scale);
    default: throw std::logic_error("a change of no kind");
  }
}

}  // namespace burnish::adapters
