#include "kernels/linear/linear.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/place.h"
namespace burnish::kernels {

namespace {

bool instructions_have_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return false;
#endif
}

/// Tells whether oneDNN multiplies bf16 in hardware: the CPU can, and ONEDNN_MAX_CPU_ISA does not hold it back.
bool cpu_has_bf16() {
  static const bool has = [] {
    const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
    const std::string isa = limit ? limit : "";
    const bool held_back =
        !isa.empty() && isa != "DEFAULT" && isa.find("BF16") == isa.npos && isa.find("AMX") == isa.npos && isa.find("FP16") == isa.npos;
    return instructions_have_bf16() && !held_back;
  }();
  return has;
}

/// oneDNN's linear as a plain product, or nothing where this torch was built without it. ATen's own linear gives fp32 to the BLAS,
/// which is a few percent slower at the sizes of transformers.
using OneDnnLinear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                                c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn_linear() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found) return std::nullopt;
    return found->typed<OneDnnLinear>();
  }();
  return handle;
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return onednn_linear()->call(x.contiguous(), weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

at::Tensor product_or_blas(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return onednn_linear() ? product(x, weight, bias) : at::linear(x, weight, bias);
}

/// bf16 in, bf16 out, fp32 inside: saves the bf16 operands only.
struct LinearAsFp32 : torch::autograd::Function<LinearAsFp32> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    // A frozen weight has no gradient, and only its gradient reads x.
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    ctx->saved_data["sizes"] = x.sizes().vec();
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    std::optional<at::Tensor> bias_fp32;
    if (bias && bias->defined()) bias_fp32 = bias->to(at::kFloat);
    return product_or_blas(x.to(at::kFloat), weight.to(at::kFloat), bias_fp32).to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    auto dy_NO = grads[0].flatten(0, -2).to(at::kFloat);
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) {
      dx = product_or_blas(dy_NO, weight.to(at::kFloat).t(), std::nullopt).to(grads[0].scalar_type());
      dx = dx.view(ctx->saved_data["sizes"].toIntVector());
    }
    if (ctx->needs_input_grad(1)) dw = at::mm(dy_NO.t(), x.flatten(0, -2).to(at::kFloat)).to(weight.scalar_type());
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) db = dy_NO.sum(0).to(weight.scalar_type());
    return {dx, dw, db};
  }
};

/// fp32 through oneDNN, both ways.
struct LinearOneDnn : torch::autograd::Function<LinearOneDnn> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    // A frozen weight has no gradient, and only its gradient reads x.
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    ctx->saved_data["sizes"] = x.sizes().vec();
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    return product(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    auto dy_NO = grads[0].flatten(0, -2);
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) dx = product(dy_NO, saved[1].t(), std::nullopt).view(ctx->saved_data["sizes"].toIntVector());
    if (ctx->needs_input_grad(1)) dw = at::mm(dy_NO.t(), saved[0].flatten(0, -2));
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) db = dy_NO.sum(0);
    return {dx, dw, db};
  }
};

/// Few rows (the modulation of a batch, a short caption) are better off with the BLAS: two to three times faster, and without the code that
/// oneDNN makes for them first, which takes tens of milliseconds.
constexpr int64_t kOneDnnRows = 64;

bool suits_onednn(const at::Tensor& x, const at::Tensor& weight) {
  return runs_on_cpu(x) && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.is_contiguous() && x.dim() >= 2 &&
         x.numel() >= kOneDnnRows * x.size(-1) && onednn_linear().has_value();
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::optional<at::Tensor> b;
  if (bias.defined()) b = bias;
  if (runs_on_cpu(x) && x.scalar_type() == at::kBFloat16 && !cpu_has_bf16()) return LinearAsFp32::apply(x, weight, b);
  if (suits_onednn(x, weight)) return LinearOneDnn::apply(x, weight, b);
  // Of rows in pieces ATen copies them too, but adds the bias behind the product, which rounds otherwise than FrozenLayers does.
  return at::linear(x.contiguous(), weight, b);
}

at::Tensor linear_back(const at::Tensor& dy_NO, const at::Tensor& weight_OI) {
  if (runs_on_cpu(dy_NO) && dy_NO.scalar_type() == at::kBFloat16 && !cpu_has_bf16())
    return product_or_blas(dy_NO.to(at::kFloat), weight_OI.to(at::kFloat).t(), std::nullopt).to(at::kBFloat16);
  return suits_onednn(dy_NO, weight_OI) ? product(dy_NO, weight_OI.t(), std::nullopt) : at::mm(dy_NO, weight_OI);
}

bool adds_in_place(const at::Tensor& x, const at::Tensor& weight) {
  return x.scalar_type() == weight.scalar_type() && product_dtype(x) == x.scalar_type() && !suits_onednn(x, weight);
}

c10::ScalarType product_dtype(const at::Tensor& x) {
  if (!runs_on_cpu(x) || (x.scalar_type() != at::kHalf && x.scalar_type() != at::kBFloat16)) return x.scalar_type();
  return x.scalar_type() == at::kBFloat16 && cpu_has_bf16() ? at::kBFloat16 : at::kFloat;
}

}  // namespace burnish::kernels
