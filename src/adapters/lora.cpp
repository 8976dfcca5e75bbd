#include "adapters/lora.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/text.h"
#include "kernels/low_rank/low_rank.h"

namespace burnish::adapters {

Lora::Lora(at::Tensor a, at::Tensor b, double alpha) : a_(std::move(a)), b_(std::move(b)), alpha_(alpha) {}

at::Tensor Lora::forward(const nn::Linear& base, const at::Tensor& x) { return kernels::add_low_rank(base.base(x), x, a_, b_, scale()); }

namespace {

using NamedLinears = std::vector<std::pair<std::string, nn::Linear*>>;

NamedLinears all_linears(nn::Module& root) {
  NamedLinears linears;
  root.visit([&](const std::string& path, nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) linears.emplace_back(path, linear);
  });
  return linears;
}

bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

/// A path with a number in it lies inside a list of blocks.
bool inside_blocks(const std::string& path) {
  for (const auto& part : split_list(path, '.')) {
    if (std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) return true;
  }
  return false;
}

NamedLinears select(const NamedLinears& linears, const std::function<bool(const std::string&, nn::Linear&)>& wanted) {
  NamedLinears chosen;
  for (const auto& [path, linear] : linears) {
    if (wanted(path, *linear)) chosen.emplace_back(path, linear);
  }
  return chosen;
}

std::vector<std::string> names_of(const std::string& path, const AliasesOf& aliases) {
  auto names = aliases(path);
  return names.empty() ? std::vector<std::string>{path} : names;
}

NamedLinears by_regex(const NamedLinears& linears, const std::string& pattern, const AliasesOf& aliases) {
  try {
    std::regex regex(pattern);
    return select(linears, [&](const std::string& path, nn::Linear&) {
      auto names = names_of(path, aliases);
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return std::regex_match(name, regex); });
    });
  } catch (const std::regex_error&) {
    return {};
  }
}

NamedLinears by_names(const NamedLinears& linears, const std::vector<std::string>& names, const AliasesOf& aliases) {
  return select(linears, [&](const std::string& path, nn::Linear&) {
    auto known = names_of(path, aliases);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::any_of(known.begin(), known.end(), [&](const std::string& k) { return ends_with_name(k, name); });
    });
  });
}

nn::Linear& linear_for(const std::map<std::string, nn::Linear*>& linears, const LoraWeights& w, const std::string& file_name,
                       size_t total) {
  auto it = linears.find(w.path);
  if (it == linears.end()) {
    data_error("adapters", "{} is a LoRA for another model: it adapts '{}' (and {} more), and this model has no such layer", file_name,
               w.path, total - 1);
  }
  auto& linear = *it->second;
  if (w.a.size(1) != linear.in_features() || w.b.size(0) != linear.out_features()) {
    data_error("adapters", "{} is a LoRA for another model: '{}' maps {} to {} features there, {} to {} here", file_name, w.path,
               w.a.size(1), w.b.size(0), linear.in_features(), linear.out_features());
  }
  return linear;
}

std::map<std::string, nn::Linear*> linear_table(nn::Module& root) {
  auto linears = all_linears(root);
  return {linears.begin(), linears.end()};
}

}  // namespace

NamedLinears match_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases) {
  auto linears = all_linears(root);
  auto names = split_list(targets);
  NamedLinears chosen;
  if (names.empty()) {
    chosen = select(linears, [](const std::string& path, nn::Linear& linear) {
      return inside_blocks(path) && std::min(linear.in_features(), linear.out_features()) >= 512;
    });
  } else if (names.size() == 1) {
    if (names[0] == "all-linear") return linears;
    chosen = by_regex(linears, names[0], aliases);
    if (chosen.empty()) chosen = by_names(linears, names, aliases);
  } else {
    chosen = by_names(linears, names, aliases);
  }
  if (chosen.empty()) {
    std::vector<std::string> some;
    for (size_t i = 0; i < linears.size() && some.size() < 4; i += std::max<size_t>(1, linears.size() / 4))
      some.push_back(linears[i].first);
    config_error("adapters", "lora_target_modules '{}' matches none of the {} linear layers; there are for example {}", targets,
                 linears.size(), join(some));
  }
  return chosen;
}

AdaptedList attach(nn::Module& root, const LoraOptions& options, const AliasesOf& aliases, uint64_t seed) {
  if (options.rank < 1) config_error("adapters", "lora_rank must be at least 1, not {}", options.rank);
  AdaptedList adapted;
  for (auto& [path, linear] : match_targets(root, options.target_modules, aliases)) {
    auto device = linear->source().device();
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed ^ std::hash<std::string>{}(path));
    auto a = at::empty({options.rank, linear->in_features()}, at::TensorOptions().dtype(at::kFloat));
    auto bound = 1.0 / std::sqrt(static_cast<double>(linear->in_features()));  // kaiming_uniform with a = √5
    a.uniform_(-bound, bound, generator);
    auto b = at::zeros({linear->out_features(), options.rank}, at::TensorOptions().dtype(at::kFloat));
    auto alpha = options.alpha > 0 ? options.alpha : static_cast<double>(options.rank);
    auto lora = std::make_shared<Lora>(a.to(device).requires_grad_(true), b.to(device).requires_grad_(true), alpha);
    linear->delta = lora;
    adapted.push_back({path, linear, lora});
  }
  return adapted;
}

void check_fit(nn::Module& root, const std::vector<LoraWeights>& weights, const std::string& file_name) {
  auto table = linear_table(root);
  for (const auto& w : weights) linear_for(table, w, file_name, weights.size());
}

AdaptedList attach_weights(nn::Module& root, const std::vector<LoraWeights>& weights, const std::string& file_name) {
  auto table = linear_table(root);
  AdaptedList adapted;
  for (const auto& w : weights) {
    auto& linear = linear_for(table, w, file_name, weights.size());
    auto device = linear.source().device();
    auto own = [&](const at::Tensor& t) {
      return t.to(at::TensorOptions().dtype(at::kFloat).device(device), false, /*copy=*/true).requires_grad_(true);
    };
    auto lora = std::make_shared<Lora>(own(w.a), own(w.b), w.alpha);
    linear.delta = lora;
    adapted.push_back({w.path, &linear, lora});
  }
  return adapted;
}

void merge(nn::Module& root, const std::vector<LoraWeights>& weights, double strength, const std::string& file_name) {
  at::NoGradGuard no_grad;
  check_fit(root, weights, file_name);
  auto table = linear_table(root);
  for (const auto& w : weights) {
    auto& linear = *table.at(w.path);
    auto scale = strength * w.alpha / static_cast<double>(w.a.size(0));
    auto device = linear.source().device();
    auto a = w.a.to(device, at::kFloat), b = w.b.to(device, at::kFloat);
    linear.source().rewrite(
        [&](int64_t begin, int64_t end) { return linear.source().rows(begin, end) + at::mm(b.narrow(0, begin, end - begin), a) * scale; });
  }
}

}  // namespace burnish::adapters
