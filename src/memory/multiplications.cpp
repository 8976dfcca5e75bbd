#include "memory/multiplications.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <memory>
#include <string_view>

namespace burnish::memory {

namespace {

/// Multiplications of an operator that is about to run, by the shapes that it is called with; 0 for all that does few for each number that
/// it reads, and for operators that call one of these.
double multiplications_of(const at::RecordFunction& function) {
  auto inputs = function.inputs();
  auto is_tensor = [&](size_t i) { return i < inputs.size() && inputs[i].isTensor() && inputs[i].toTensor().defined(); };
  auto size = [&](size_t i, int64_t dim) { return static_cast<double>(inputs[i].toTensor().size(dim)); };
  auto count = [&](size_t i) { return static_cast<double>(inputs[i].toTensor().numel()); };
  const std::string_view name = function.name();
  const size_t first = name == "aten::addmm" || name == "aten::addmm_" ? 1 : 0;
  if (!is_tensor(first) || !is_tensor(first + 1)) return 0;
  if (name == "aten::mm" || name == "aten::addmm" || name == "aten::addmm_" || name == "aten::_scaled_mm" || name == "aten::_int_mm")
    return count(first) * size(first + 1, 1);
  if (name == "burnish::product") return count(0) * size(1, 1);  // which has its result as the second
  if (name == "aten::bmm") return count(0) * size(1, 2);
  if (name == "mkldnn::_linear_pointwise") return count(0) * size(1, 0);
  if (name == "aten::scaled_dot_product_attention" || name == "burnish::attention") return 2 * count(0) * size(1, -2);
  bool is_backward_of_attention =
      (name.starts_with("aten::_scaled_dot_product") && name.ends_with("_backward")) || name == "burnish::attention_backward";
  if (is_backward_of_attention) return 5 * count(1) * size(2, -2);  // the scores once more, and a product for each of four gradients
  if (name == "aten::convolution_backward") return 2 * count(0) * count(2) / size(2, 0);  // for the input's and the weight's
  if (name == "aten::convolution") {                                                      // of stride 1; others are few
    auto num_places = count(0) / size(0, 1);
    return count(1) * num_places;
  }
  return 0;
}

std::unique_ptr<at::ObserverContext> add_multiplications(const at::RecordFunction& function) {
  Multiplications::of_thread() += multiplications_of(function);
  return nullptr;
}

}  // namespace

double& Multiplications::of_thread() {
  thread_local double count = 0;
  return count;
}

Multiplications::Multiplications()
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&add_multiplications).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
  Multiplications::of_thread() = 0;
}

Multiplications::~Multiplications() { at::removeCallback(callback_); }

double Multiplications::so_far() const { return Multiplications::of_thread(); }

}  // namespace burnish::memory
