#include "optim/coded_averages.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "kernels/place.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

CodedAverages::Map map_on(const at::Device& device, bool is_signed) {
  const std::vector<float> values = dynamic_map(is_signed);
  std::vector<float> borders;
  for (size_t i = 0; i + 1 < values.size(); ++i) borders.push_back((values[i] + values[i + 1]) / 2);
  return {at::tensor(values).to(device), at::tensor(borders).to(device), kernels::BlockCodes(values, CodedAverages::kBlock)};
}

/// Tells whether states are those of a CPU, in the layout in which they were made.
bool suits_cpu(const at::Tensor& codes, const at::Tensor& scales) {
  return kernels::runs_on_cpu(codes) && codes.is_contiguous() && scales.is_contiguous() && scales.scalar_type() == at::kFloat;
}

/// A flat tensor as blocks [n, 256], filled up with zeros.
at::Tensor in_blocks(const at::Tensor& flat) {
  const int64_t missing = (CodedAverages::kBlock - flat.numel() % CodedAverages::kBlock) % CodedAverages::kBlock;
  return (missing > 0 ? at::constant_pad_nd(flat, {0, missing}) : flat).view({-1, CodedAverages::kBlock});
}

}  // namespace

void CodedAverages::add_slots(const std::string& name, const NamedParameter& parameter, std::vector<Slot>& list) {
  const int64_t num_blocks = (parameter.value.numel() + kBlock - 1) / kBlock;
  // The code of the value 0, though a scale of 0 makes zeros of all codes.
  const auto bytes = parameter.value.options().dtype(at::kByte).requires_grad(false);
  list.push_back({name + ".codes", at::zeros(parameter.value.sizes(), bytes)});
  list.push_back({name + ".scales", zeros_for(parameter, at::IntArrayRef{num_blocks}), kBlock});
}

const CodedAverages::Map& CodedAverages::map(const at::Device& device, bool is_signed) {
  const std::pair key(device.str(), is_signed);
  const auto found = maps_.find(key);
  return found != maps_.end() ? found->second : maps_.emplace(key, map_on(device, is_signed)).first->second;
}

at::Tensor CodedAverages::decode(const Map& map, const at::Tensor& codes, const at::Tensor& scales) {
  if (suits_cpu(codes, scales)) return map.on_cpu.decode(codes, scales);
  const at::Tensor values = map.values.index_select(0, codes.to(at::kInt));
  return in_blocks(values).mul(scales.unsqueeze(1)).view({-1}).narrow(0, 0, codes.numel());
}

void CodedAverages::encode(const Map& map, const at::Tensor& exact, const at::Tensor& codes, const at::Tensor& scales) {
  if (suits_cpu(codes, scales)) return map.on_cpu.encode(exact, codes, scales);
  const at::Tensor blocks = in_blocks(exact);
  const at::Tensor most = at::linalg_vector_norm(blocks, std::numeric_limits<double>::infinity(), 1);
  scales.copy_(most);
  // A block of zeros has the code of zero and the scale 0.
  const at::Tensor fractions = blocks * most.clamp_min(1e-38).reciprocal_().unsqueeze(1);
  codes.copy_(at::bucketize(fractions.view({-1}).narrow(0, 0, exact.numel()), map.borders, /*out_int32=*/true));
}

std::vector<float> dynamic_map(bool is_signed) {
  std::vector<float> values{0, 1};
  double scale = 1e-6;
  for (int exponent = 0; exponent < 7; ++exponent, scale *= 10) {
    const int num_fractions = 1 << (is_signed ? exponent : exponent + 1);
    // Middles of equal parts of [0.1, 1].
    for (int k = 0; k < num_fractions; ++k) {
      const auto value = static_cast<float>(scale * (0.1 + 0.9 * (k + 0.5) / num_fractions));
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace burnish::optim
