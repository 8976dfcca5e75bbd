#include "diffusion/unipc.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

namespace burnish::diffusion {

namespace {

class UniPc : public Sampler {
 public:
  UniPc(int64_t order, std::vector<double> sigmas) : most_(order) {
    // Noise alone has no finite ratio; diffusers stays so far below it.
    constexpr double kBelowOne = 1e-6;
    if (std::abs(sigmas.front() - 1) < kBelowOne) sigmas.front() -= kBelowOne;
    for (const double sigma : sigmas) {
      times_.push_back(std::floor(sigma * 1000) / 1000);
      const double s = static_cast<float>(sigma);
      points_.push_back({1 - s, s, std::log(1 - s) - std::log(s)});
    }
  }

  int64_t num_steps() const override { return std::ssize(points_) - 1; }
  double time(int64_t step) const override { return times_[static_cast<size_t>(step)]; }
  at::Tensor start(const at::Tensor& noise) const override { return noise; }
  at::Tensor model_input(const at::Tensor& latents, int64_t) const override { return latents; }

  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise&) override {
    auto dtype = latents.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    auto picture = latents - prediction.to(dtype) * at(step).sigma;
    auto corrected = step > 0 ? correct(picture, step) : latents;
    before_ = last_;
    last_ = picture;
    latents_ = corrected;
    order_ = std::min({most_, num_steps() - step, step + 1});
    return predict(step);
  }

 private:
  struct Point {
    double alpha, sigma, lambda;
  };
  const Point& at(int64_t step) const { return points_[static_cast<size_t>(step)]; }

  /// -h of the step to `to`, h being its length in half the log signal-to-noise ratio.
  double exponent(int64_t to) const { return at(to - 1).lambda - at(to).lambda; }
  /// Returns what the pictures are multiplied by in the step to `to`.
  double weight(int64_t to) const { return -at(to).alpha * std::expm1(exponent(to)); }
  /// The length of the step before the one to `to`, in lengths of the latter: below 0.
  double ratio(int64_t to) const { return (at(to - 2).lambda - at(to - 1).lambda) / -exponent(to); }
  /// The step to `to` of first order.
  at::Tensor straight(int64_t to) const { return latents_ * (at(to).sigma / at(to - 1).sigma) + last_ * weight(to); }

  /// The latents after a step.
  at::Tensor predict(int64_t step) const {
    auto moved = straight(step + 1);
    return order_ == 1 ? moved : moved + (before_ - last_) * (0.5 * weight(step + 1) / ratio(step + 1));
  }

  /// The latents at a step, now that the picture there is known.
  at::Tensor correct(const at::Tensor& picture, int64_t step) const {
    auto moved = straight(step);
    if (order_ == 1) return moved + (picture - last_) * (0.5 * weight(step));
    const double e = exponent(step), r = ratio(step), b = std::expm1(e);
    const double first = b / e - 1, second = first / e - 0.5;
    // Weights w, v of the two changes: w + v and r w + v are what the first two terms of the expansion want.
    const double w = (2 * second - first) / b / (r - 1), v = first / b - w;
    return moved + (before_ - last_) * (w * weight(step) / r) + (picture - last_) * (v * weight(step));
  }

  int64_t most_;
  std::vector<double> times_;
  std::vector<Point> points_;
  at::Tensor last_, before_;  ///< the pictures that were predicted at the last step and at the one before
  at::Tensor latents_;        ///< the latents there, corrected
  int64_t order_ = 1;         ///< of the last step
};

}  // namespace

std::unique_ptr<Sampler> unipc_sampler(int64_t order, std::vector<double> sigmas) {
  return std::make_unique<UniPc>(order, std::move(sigmas));
}

}  // namespace burnish::diffusion
