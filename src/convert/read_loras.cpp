#include "convert/read_loras.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/core.h>

#include <algorithm>

#include "adapters/make_change.h"
#include "base/input_error.h"

namespace burnish::convert {

namespace {

using adapters::AdapterWeights;

bool is_lora(const AdapterWeights& w) { return w.kind == adapters::Kind::lora && !w.magnitude.m.defined(); }

/// Tells whether what an adapter adds is its scale times something.
bool is_scaled(const AdapterWeights& w) {
  using enum adapters::Kind;
  return !w.magnitude.m.defined() && (w.kind == lora || w.kind == loha || w.kind == lokr || w.kind == full);
}

std::string kind_of(const AdapterWeights& w) { return w.magnitude.m.defined() ? "dora" : std::string(adapters::kind_name(w.kind)); }

/// Returns what stays of adapters at these strengths.
std::vector<AdapterWeights> at_strengths(const std::vector<AdapterWeights>& weights, double strength, const std::vector<double>& factors,
                                         const std::string& file) {
  std::vector<AdapterWeights> scaled;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto factor = strength * factors[i];
    if (factor == 0) continue;
    if (factor != 1 && !is_scaled(weights[i]))
      config_error("convert", "{}: a {} has no other strength than 1, and is to have {}; make it a LoRA first (--lora_type lora)", file,
                   kind_of(weights[i]), factor);
    scaled.push_back(weights[i]);
    scaled.back().scale *= factor;
  }
  return scaled;
}

at::Tensor factor_of(const AdapterWeights& w, const char* name) {
  return std::ranges::find(w.parameters, name, [](const auto& p) { return p.first; })->second.to(at::kFloat);
}

/// The LoRA that adds what two add.
AdapterWeights sum_of(const AdapterWeights& first, const AdapterWeights& second, const std::string& file) {
  for (const auto* w : {&first, &second}) {
    if (!is_lora(*w))
      config_error("convert", "{} adapts {} as others do, and there is a {} among them; make each a LoRA first (--lora_type lora)", file,
                   w->path, kind_of(*w));
  }
  const auto a = adapters::cut(first), b = adapters::cut(second);
  AdapterWeights sum;
  sum.path = first.path;
  sum.parameters = {
      {"lora_A.weight", at::cat({factor_of(a, "lora_A.weight"), factor_of(b, "lora_A.weight")}, 0)},
      {"lora_B.weight", at::cat({factor_of(a, "lora_B.weight") * first.scale, factor_of(b, "lora_B.weight") * second.scale}, 1)}};
  return sum;
}

void add(std::vector<AdapterWeights>& sum, const std::vector<AdapterWeights>& weights, const std::string& file) {
  for (const auto& w : weights) {
    auto same = std::ranges::find(sum, adapters::parameter_of(w), adapters::parameter_of);
    if (same == sum.end()) sum.push_back(w);
    else *same = sum_of(*same, w, file);
  }
}

}  // namespace

loras::AdaptersByComponent read_loras(models::Model& model, const std::vector<loras::LoraFile>& files) {
  loras::AdaptersByComponent all;
  for (const auto& file : files) {
    const auto read = loras::read(model, file.path, loras::Absent::as_published);
    const auto factors = file.layers.of(model, read, file.path);
    for (const auto& [component, weights] : read)
      add(all[component], at_strengths(weights, file.strength, factors.at(component), file.path), file.path);
  }
  std::erase_if(all, [](const auto& of_component) { return of_component.second.empty(); });
  if (all.empty()) config_error("convert", "nothing is left of {} at these strengths", loras::text_of(files.front()));
  return all;
}

}  // namespace burnish::convert
