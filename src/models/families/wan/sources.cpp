#include "models/families/wan/sources.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <cmath>

#include "models/families/wan/config.h"

namespace burnish::models::wan {

/// The model was trained with so many at most.
constexpr double kMostSources = 5;

std::vector<double> source_numbers(size_t num_sources) {
  std::vector<double> numbers;
  const auto count = static_cast<double>(num_sources);
  for (double i = 0; i < count; ++i) numbers.push_back(count <= kMostSources ? i + 1 : 1 + i * (kMostSources - 1) / (count - 1));
  return numbers;
}

std::pair<at::Tensor, at::Tensor> turned_by_source(const std::pair<at::Tensor, at::Tensor>& tables, double number) {
  const auto& [cos, sin] = tables;
  const auto num_pairs = cos.size(-1);
  const auto pairs = at::arange(num_pairs, cos.options().dtype(at::kDouble));
  const auto angles = (pairs * (-std::log(kRopeTheta) / static_cast<double>(num_pairs))).exp() * number;
  const auto cos_by = angles.cos().to(at::kFloat), sin_by = angles.sin().to(at::kFloat);
  return {cos * cos_by - sin * sin_by, sin * cos_by + cos * sin_by};
}

}  // namespace burnish::models::wan
