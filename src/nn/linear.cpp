#include "nn/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <stdexcept>

#include "kernels/linear/linear.h"

namespace burnish::nn {

at::Tensor ParameterSource::multiply(const at::Tensor& x, const at::Tensor& bias) const { return kernels::linear(x, weight_, bias); }

at::Tensor ParameterSource::multiply_transposed(const at::Tensor& dy) const {
  at::NoGradGuard no_grad;
  auto wide = kernels::product_dtype(dy);
  auto dx = at::mm(dy.flatten(0, -2).to(wide), weight_.to(wide)).to(dy.scalar_type());
  auto shape = dy.sizes().vec();
  shape.back() = in_features();
  return dx.view(shape);
}

at::Tensor ParameterSource::rows(int64_t begin, int64_t end) const { return weight_.detach().narrow(0, begin, end - begin).to(at::kFloat); }

void ParameterSource::rewrite(const Rows& new_rows) {
  at::NoGradGuard no_grad;
  auto fresh = at::empty(weight_.sizes(), weight_.options().requires_grad(false));
  for_each_tile(*this, [&](int64_t begin, int64_t end) { fresh.narrow(0, begin, end - begin).copy_(new_rows(begin, end)); });
  weight_ = fresh;
}

Linear::Linear(int64_t in_features, int64_t out_features, const at::TensorOptions& options, bool with_bias)
    : weight(at::empty({out_features, in_features}, options)),
      in_features_(in_features),
      out_features_(out_features),
      source_(std::make_shared<ParameterSource>(weight)) {
  own("weight", weight);
  if (with_bias) {
    bias = at::empty({out_features}, options);
    own("bias", bias);
  }
}

void Linear::set_source(std::shared_ptr<WeightSource> source) {
  if (source->in_features() != in_features_ || source->out_features() != out_features_)
    throw std::logic_error("a weight source of another shape than its layer");
  source_ = std::move(source);
  weight = at::Tensor();
}

}  // namespace burnish::nn
