#include "train/run/compared_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/median.h"
#include "base/progress.h"
#include "base/random_key.h"
#include "train/run/untrained.h"
#include "train/step/step.h"

namespace burnish::train {

namespace {

constexpr int64_t kRank = 8, kLeastSamples = 4, kBuckets = 16384;

/// Brings gradients of any length into kBuckets numbers whose products are about those of the gradients: each number goes with a sign of
/// its own into one of them (count sketch; Charikar et al. 2002). An error of a cosine is about 1/sqrt(kBuckets).
class Sketch {
 public:
  explicit Sketch(const optim::ParameterList& parameters) {
    uint64_t number = 0;
    for (const auto& parameter : parameters) {
      std::vector<int64_t> buckets;
      std::vector<float> signs;
      for (int64_t i = 0; i < parameter.value.numel(); ++i) {
        const auto hash = mix64(number++);
        buckets.push_back(static_cast<int64_t>(hash % kBuckets));
        signs.push_back((hash >> 63) != 0 ? 1.0f : -1.0f);
      }
      const auto device = parameter.value.device();
      parts_.push_back({parameter.value, at::tensor(buckets).to(device), at::tensor(signs).to(device)});
    }
  }
  /// Returns what the gradients of the parameters are now, on the CPU; those of parameters without one count as zeros.
  at::Tensor now() const {
    auto sum = at::zeros({kBuckets}, at::kDouble);
    for (const auto& part : parts_) {
      const auto& gradient = part.parameter.grad();
      if (!gradient.defined()) continue;
      const auto signed_values = gradient.flatten().to(at::kFloat) * part.signs;
      auto buckets = at::zeros({kBuckets}, signed_values.options());
      sum += buckets.index_add_(0, part.buckets, signed_values).to(at::kCPU, at::kDouble);
    }
    return sum;
  }

 private:
  struct Part {
    at::Tensor parameter, buckets, signs;
  };
  std::vector<Part> parts_;
};

/// The direction in which a sample pulls, and how hard.
struct Taught {
  at::Tensor direction;  ///< unit vectors of its gradients at all draws, added up
  double length = 0;     ///< of its gradients in the mean
};

Taught taught_by(Untrained& by, const Sketch& sketch, int64_t place) {
  Taught taught{.direction = at::zeros({kBuckets}, at::kDouble)};
  for (int64_t draw = 0; draw < by.num_draws(); ++draw) {
    auto batch = by.batch(place, draw);
    const auto norm = compute_gradients(by.trainee(), by.objective(), 1, [&] { return std::move(batch); }).norm.item<double>();
    taught.length += norm / static_cast<double>(by.num_draws());
    if (norm > 0) taught.direction += sketch.now() / norm;
  }
  return taught;
}

double cosine(const at::Tensor& a, const at::Tensor& b) {
  const auto lengths = a.norm().item<double>() * b.norm().item<double>();
  return lengths > 0 ? a.dot(b).item<double>() / lengths : 0;
}

/// Compares each with the sum of the others.
void compare(const std::vector<Taught>& taught, ComparedGradients& compared) {
  auto sum = at::zeros({kBuckets}, at::kDouble);
  std::vector<double> lengths, agreements, strays;
  for (const auto& one : taught) {
    sum += one.direction;
    lengths.push_back(one.length);
  }
  const auto usual_length = std::max(median(lengths), 1e-30);
  for (size_t i = 0; i < taught.size(); ++i) {
    auto& sample = compared.samples[i];
    sample.agreement = cosine(taught[i].direction, sum - taught[i].direction);
    sample.length = taught[i].length / usual_length;
    agreements.push_back(sample.agreement);
  }
  for (const auto& sample : compared.samples) strays.push_back(sample.stray());
  compared.usual = median(agreements);
  compared.usual_stray = median(strays);
  std::ranges::stable_sort(compared.samples, [](const auto& a, const auto& b) { return a.stray() > b.stray(); });
}

}  // namespace

ComparedGradients compare_gradients(const TrainOptions& options) {
  Untrained by(options, {.is = "pictures are compared", .rank = kRank, .with_backward = true});
  const auto& samples = by.samples();
  const Sketch sketch(by.trainee().optimizer->parameters());
  ComparedGradients compared;
  std::vector<Taught> taught;
  Progress progress("compare pictures", std::ssize(samples.list));
  for (int64_t i = 0; i < std::ssize(samples.list); ++i) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while comparing pictures");
    const auto& sample = samples.list[static_cast<size_t>(i)];
    progress.update(i + 1);
    if (!is_asked_about(samples, sample)) continue;
    taught.push_back(taught_by(by, sketch, i));
    compared.samples.push_back({.row = sample.number, .file = sample.row.file, .caption = sample.row.prompt});
  }
  if (std::ssize(taught) < kLeastSamples)
    data_error("train", "what pictures teach is compared with what the others do, and there are {}; {} are the least that say something",
               taught.size(), kLeastSamples);
  compare(taught, compared);
  return compared;
}

}  // namespace burnish::train
