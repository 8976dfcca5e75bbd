#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>

#include "kernels/adamw_8bit/gpu.h"
#include "kernels/block_codes/block_codes.h"
#include "kernels/place.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

constexpr int64_t kBlock = 256;

/// The values of codes and the halves between them, on one device.
struct Map {
  at::Tensor values, borders;
  kernels::BlockCodes on_cpu;
};

Map map_on(const at::Device& device, bool is_signed) {
  const std::vector<float> values = dynamic_map(is_signed);
  std::vector<float> borders;
  for (size_t i = 0; i + 1 < values.size(); ++i) borders.push_back((values[i] + values[i + 1]) / 2);
  return {at::tensor(values).to(device), at::tensor(borders).to(device), kernels::BlockCodes(values, kBlock)};
}

/// Whether states are those of a CPU, in the layout in which they were made.
bool suits_cpu(const at::Tensor& codes, const at::Tensor& scales) {
  return kernels::runs_on_cpu(codes) && codes.is_contiguous() && scales.is_contiguous() && scales.scalar_type() == at::kFloat;
}

/// A flat tensor as blocks [n, 256], filled up with zeros.
at::Tensor in_blocks(const at::Tensor& flat) {
  const int64_t missing = (kBlock - flat.numel() % kBlock) % kBlock;
  return (missing > 0 ? at::constant_pad_nd(flat, {0, missing}) : flat).view({-1, kBlock});
}

at::Tensor decode(const Map& map, const at::Tensor& codes, const at::Tensor& scales) {
  if (suits_cpu(codes, scales)) return map.on_cpu.decode(codes, scales);
  const at::Tensor values = map.values.index_select(0, codes.to(at::kInt));
  return in_blocks(values).mul(scales.unsqueeze(1)).view({-1}).narrow(0, 0, codes.numel());
}

void encode(const Map& map, const at::Tensor& exact, const at::Tensor& codes, const at::Tensor& scales) {
  if (suits_cpu(codes, scales)) return map.on_cpu.encode(exact, codes, scales);
  const at::Tensor blocks = in_blocks(exact);
  const at::Tensor most = at::linalg_vector_norm(blocks, std::numeric_limits<double>::infinity(), 1);
  scales.copy_(most);
  // A block of zeros has the code of zero and the scale 0.
  const at::Tensor fractions = blocks * most.clamp_min(1e-38).reciprocal_().unsqueeze(1);
  codes.copy_(at::bucketize(fractions.view({-1}).narrow(0, 0, exact.numel()), map.borders, /*out_int32=*/true));
}

class AdamW8bit final : public UpdateRule {
 public:
  explicit AdamW8bit(const AdamWOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    const int64_t num_blocks = (parameter.value.numel() + kBlock - 1) / kBlock;
    std::vector<Slot> list;
    for (const char* name : {"exp_avg", "exp_avg_sq"}) {
      // The code of the value 0, though a scale of 0 makes zeros of all codes.
      const auto bytes = parameter.value.options().dtype(at::kByte).requires_grad(false);
      list.push_back({std::string(name) + ".codes", at::zeros(parameter.value.sizes(), bytes)});
      list.push_back({std::string(name) + ".scales", zeros_for(parameter, at::IntArrayRef{num_blocks}), kBlock});
    }
    return list;
  }

  int64_t granule(int64_t /*numel*/) const override { return kBlock; }

  void apply(const Batch& batch) override {
    const auto& [first, second] = maps_on(batch.values[0].device());
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const kernels::CodedMoment moments[] = {{batch.slots[i][0], batch.slots[i][1], first.values, first.borders},
                                              {batch.slots[i][2], batch.slots[i][3], second.values, second.borders}};
      if (kernels::adamw_8bit_fits_gpu(batch.values[i], batch.gradients[i], moments[0], moments[1])) {
        const kernels::AdamWStep step{batch.lr, options_.beta1, options_.beta2, options_.eps, batch.weight_decay, batch.steps[i]};
        kernels::adamw_8bit_gpu(batch.values[i], batch.gradients[i], moments[0], moments[1], step);
        continue;
      }
      at::Tensor exp_avg = decode(first, batch.slots[i][0], batch.slots[i][1]);
      at::Tensor exp_avg_sq = decode(second, batch.slots[i][2], batch.slots[i][3]);
      at::Tensor count = at::full({}, static_cast<double>(batch.steps[i]), batch.values[i].options());
      at::_fused_adamw_({batch.values[i]}, {batch.gradients[i]}, {exp_avg}, {exp_avg_sq}, /*max_exp_avg_sqs=*/{}, {count}, batch.lr,
                        options_.beta1, options_.beta2, batch.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
      encode(first, exp_avg, batch.slots[i][0], batch.slots[i][1]);
      encode(second, exp_avg_sq, batch.slots[i][2], batch.slots[i][3]);
    }
  }

 private:
  const std::pair<Map, Map>& maps_on(const at::Device& device) {
    const auto found = maps_.find(device.str());
    if (found != maps_.end()) return found->second;
    return maps_.emplace(device.str(), std::pair(map_on(device, true), map_on(device, false))).first->second;
  }

  AdamWOptions options_;
  std::map<std::string, std::pair<Map, Map>> maps_;
};

}  // namespace

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

RulePtr adamw8bit(const AdamWOptions& options) { return std::make_shared<AdamW8bit>(options); }

}  // namespace burnish::optim
