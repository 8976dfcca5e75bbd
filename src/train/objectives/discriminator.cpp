#include "train/objectives/discriminator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/leaky_relu.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::train {

namespace {

constexpr double kNegativeSlope = 0.2, kEps = 1e-5;

/// Counts the groups of a norm: a quarter of few channels, else the largest number up to 32 that divides them.
int64_t num_groups(int64_t channels) {
  constexpr int64_t kMost = 32;
  if (channels <= kMost) return std::max<int64_t>(1, channels / 4);
  auto groups = kMost;
  while (channels % groups != 0) --groups;
  return groups;
}

}  // namespace

struct Discriminator::Head : nn::Module {
  Head(int64_t width, const at::TensorOptions& o)
      : halving(width, width / 2, 4, 2, 1, o), norm(num_groups(width / 2), width / 2, kEps, o), out(width / 2, 1, 1, 1, 0, o) {
    own("0", halving);
    own("1", norm);
    own("3", out);
  }
  at::Tensor forward(const at::Tensor& x) const {
    return out.forward(at::leaky_relu(norm.forward(halving.forward(x)), kNegativeSlope)).flatten(1).mean(1, /*keepdim=*/true);
  }
  nn::Conv2d halving;
  nn::GroupNorm norm;
  nn::Conv2d out;
};

Discriminator::Discriminator(int64_t width, int64_t num_heads, const at::TensorOptions& options) : width_(width) {
  for (int64_t i = 0; i < num_heads; ++i) {
    heads_.push_back(std::make_unique<Head>(width, options));
    own(fmt::format("heads.{}", i), *heads_.back());
  }
}

Discriminator::~Discriminator() = default;

at::Tensor Discriminator::forward(const std::vector<at::Tensor>& features) const {
  std::vector<at::Tensor> logits;
  for (size_t i = 0; i < heads_.size(); ++i) logits.push_back(heads_[i]->forward(features.at(i).to(at::kFloat)));
  return at::cat(logits, 1);
}

std::unique_ptr<Discriminator> Discriminator::frozen() {
  auto copy = std::make_unique<Discriminator>(width_, std::ssize(heads_), at::TensorOptions().dtype(at::kFloat).device(at::kMeta));
  const auto trained = parameters();
  copy->visit_parameters([&](const std::string& path, at::Tensor& p) { p = trained.at(path)->detach(); });
  return copy;
}

void Discriminator::initialise(uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& head : heads_) {
    for (auto* layer : {&head->halving, &head->out}) {
      const auto bound = 1 / std::sqrt(static_cast<double>(layer->in_features()));
      for (auto* p : {&layer->weight, &layer->bias})
        *p = at::empty(p->sizes(), at::TensorOptions().dtype(at::kFloat)).uniform_(-bound, bound, generator);
    }
    head->norm.weight = at::empty(head->norm.weight.sizes(), at::TensorOptions().dtype(at::kFloat)).fill_(1);
    head->norm.bias = at::empty(head->norm.bias.sizes(), at::TensorOptions().dtype(at::kFloat)).zero_();
  }
}

models::Recipe discriminator_recipe(const std::string& name, int64_t width, int64_t num_heads, uint64_t seed) {
  models::Recipe recipe{.name = name, .what = name};
  recipe.build = [=](const std::string&, const at::TensorOptions& options) -> std::unique_ptr<nn::Module> {
    return std::make_unique<Discriminator>(width, num_heads, options);
  };
  recipe.dtype = at::kFloat;
  recipe.initialise = [seed](nn::Module& whole) { static_cast<Discriminator&>(whole).initialise(seed); };
  recipe.weights_from = models::WeightsFrom::drawn;
  return recipe;
}

}  // namespace burnish::train
