#include "train/run/compared_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/median.h"
#include "base/progress.h"
#include "io/safetensors.h"
#include "train/run/untrained.h"
#include "train/step/step.h"

namespace burnish::train {

bool ComparedGradients::pulls_elsewhere(const ComparedGradient& sample) const {
  return have_much_in_common() && sample.agreement < usual - 4 * spread;
}

ComparedGradients compare_gradients(const TrainOptions& options) {
  const char* rank = std::getenv("XRANK");
  Untrained by(options, {.is = "pictures are compared", .rank = rank ? std::atoi(rank) : 8, .with_backward = true});
  const auto& samples = by.samples();
  ComparedGradients compared;
  Progress progress("compare gradients", std::ssize(samples.list));
  std::vector<at::Tensor> all;
  const bool same_noise = std::getenv("XSAME") != nullptr;
  for (int64_t i = 0; i < std::ssize(samples.list); ++i) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while comparing pictures");
    const auto& sample = samples.list[static_cast<size_t>(i)];
    std::vector<at::Tensor> draws;
    for (int64_t draw = 0; draw < by.num_draws(); ++draw) {
      auto batch = by.batch(i, draw);
      if (same_noise) batch.draws["noise"] = by.batch(0, draw).draws.at("noise");
      compute_gradients(by.trainee(), by.objective(), 1, [&] { return std::move(batch); });
      std::vector<at::Tensor> parts;
      for (const auto& p : by.trainee().optimizer->parameters()) {
        if (p.name.find("lora_B") != std::string::npos) parts.push_back(p.value.grad().detach().clone().flatten());
      }
      draws.push_back(at::cat(parts));
    }
    all.push_back(at::stack(draws));
    compared.samples.push_back({sample.number, sample.row.file, sample.row.prompt, 0, 0});
    progress.update(i + 1);
  }
  io::save_safetensors(std::getenv("XDUMP"), {{"g", at::stack(all)}}, {});
  return compared;
}

}  // namespace burnish::train
