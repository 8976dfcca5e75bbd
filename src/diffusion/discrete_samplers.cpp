#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "diffusion/discrete_process.h"

namespace burnish::diffusion {
namespace {

/// Steps in the terms of Karras et al.: latents are picture + sigma · noise, sigma = √((1-a)/a); the last sigma is 0.
struct Steps {
  std::vector<double> times, sigmas;
  std::string prediction_type;
  bool starts_at_maximum = false;  ///< noise is scaled to the first sigma; else by √(sigma² + 1), which leading steps want
};

/// sigma at a timestep between two others lies on the line through theirs.
double sigma_at(const std::vector<double>& sigmas, double t) {
  const double last = static_cast<double>(sigmas.size() - 1), place = std::clamp(t, 0.0, last), below = std::floor(place);
  const auto i = static_cast<size_t>(below);
  return sigmas[i] + (place - below) * (sigmas[std::min(i + 1, sigmas.size() - 1)] - sigmas[i]);
}

/// sigma at every timestep. One of noise alone has no finite sigma; diffusers takes the smallest fp16 number for its signal.
std::vector<double> sigmas_of(const std::vector<double>& alphas_cumprod) {
  std::vector<double> sigmas;
  for (const double a : alphas_cumprod) {
    const double signal = a > 0 ? a : 0x1.0p-24;
    sigmas.push_back(std::sqrt((1 - signal) / signal));
  }
  return sigmas;
}

at::Tensor fp32(const at::Tensor& x) { return x.to(at::kFloat); }

class SigmaSampler : public Sampler {
 public:
  explicit SigmaSampler(Steps steps) : steps_(std::move(steps)) {}
  int64_t num_steps() const override { return std::ssize(steps_.times); }
  double time(int64_t step) const override { return steps_.times[static_cast<size_t>(step)]; }
  at::Tensor start(const at::Tensor& noise) const override {
    const double first = sigma(0);
    return fp32(noise) * (steps_.starts_at_maximum ? first : std::sqrt(first * first + 1));
  }
  at::Tensor model_input(const at::Tensor& latents, int64_t step) const override {
    return latents / std::sqrt(sigma(step) * sigma(step) + 1);
  }

 protected:
  double sigma(int64_t step) const { return steps_.sigmas[static_cast<size_t>(step)]; }
  /// The picture that a prediction stands for.
  at::Tensor picture(const at::Tensor& latents, const at::Tensor& prediction, int64_t step) const {
    const double s = sigma(step);
    if (steps_.prediction_type == "epsilon") return latents - fp32(prediction) * s;
    if (steps_.prediction_type == "sample") return fp32(prediction);
    return fp32(prediction) * (-s / std::sqrt(s * s + 1)) + latents / (s * s + 1);
  }
  at::Tensor towards(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, double to) const {
    return latents + (latents - picture(latents, prediction, step)) / sigma(step) * (to - sigma(step));
  }

  Steps steps_;
};

class Euler : public SigmaSampler {
 public:
  using SigmaSampler::SigmaSampler;
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise&) override {
    return towards(latents, prediction, step, sigma(step + 1));
  }
};

/// Euler below the next sigma, then noise up to it.
class EulerAncestral : public SigmaSampler {
 public:
  using SigmaSampler::SigmaSampler;
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise& noise) override {
    const double from = sigma(step), to = sigma(step + 1);
    const double up = std::sqrt(to * to * (from * from - to * to) / (from * from));
    auto moved = towards(latents, prediction, step, std::sqrt(std::max(0.0, to * to - up * up)));
    return up > 0 ? moved + noise() * up : moved;
  }
};

/// Second order in half the log signal-to-noise ratio, with the picture predicted a step before; the first and last step are of first
/// order. Latents are √a picture + √(1-a) noise.
class DpmPlusPlus2M : public Sampler {
 public:
  explicit DpmPlusPlus2M(Steps steps) : steps_(std::move(steps)) {}
  int64_t num_steps() const override { return std::ssize(steps_.times); }
  double time(int64_t step) const override { return steps_.times[static_cast<size_t>(step)]; }
  at::Tensor start(const at::Tensor& noise) const override { return fp32(noise); }
  at::Tensor model_input(const at::Tensor& latents, int64_t) const override { return latents; }
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise&) override {
    const auto from = at(step), to = at(step + 1);
    auto picture = picture_of(latents, fp32(prediction), from);
    const double h = to.lambda - from.lambda;
    const double weight = -to.alpha * (std::exp(-h) - 1);
    auto moved = latents * (to.sigma / from.sigma) + picture * weight;
    if (step > 0 && step + 1 < num_steps()) {
      const double ratio = h / (from.lambda - at(step - 1).lambda);
      moved = moved + (picture - last_) * (0.5 * weight * ratio);
    }
    last_ = picture;
    return moved;
  }

 private:
  struct Point {
    double alpha, sigma, lambda;
  };
  Point at(int64_t step) const {
    const double s = steps_.sigmas[static_cast<size_t>(step)];
    const double alpha = 1 / std::sqrt(s * s + 1);
    return {alpha, s * alpha, -std::log(s)};
  }
  at::Tensor picture_of(const at::Tensor& latents, const at::Tensor& prediction, const Point& p) const {
    if (steps_.prediction_type == "epsilon") return (latents - prediction * p.sigma) / p.alpha;
    if (steps_.prediction_type == "sample") return prediction;
    return latents * p.alpha - prediction * p.sigma;
  }
  Steps steps_;
  at::Tensor last_;
};

/// Straight from one timestep to another, without noise (eta 0).
class Ddim : public Sampler {
 public:
  Ddim(const DiscreteConfig& config, std::vector<double> times, std::vector<double> a)
      : config_(config), times_(std::move(times)), a_(std::move(a)) {}
  int64_t num_steps() const override { return std::ssize(times_); }
  double time(int64_t step) const override { return times_[static_cast<size_t>(step)]; }
  at::Tensor start(const at::Tensor& noise) const override { return fp32(noise); }
  at::Tensor model_input(const at::Tensor& latents, int64_t) const override { return latents; }
  at::Tensor update(const at::Tensor& latents, const at::Tensor& prediction, int64_t step, const Noise&) override {
    const auto t = static_cast<int64_t>(time(step));
    const auto before = t - config_.num_train_timesteps / num_steps();
    const double a = a_[static_cast<size_t>(t)];
    const double next = before >= 0 ? a_[static_cast<size_t>(before)] : config_.set_alpha_to_one ? 1.0 : a_[0];
    const double signal = std::sqrt(a), share = std::sqrt(1 - a);
    auto p = fp32(prediction);
    at::Tensor picture, noise;
    if (config_.prediction_type == "epsilon") {
      picture = (latents - p * share) / signal, noise = p;
    } else if (config_.prediction_type == "sample") {
      picture = p, noise = (latents - p * signal) / share;
    } else {
      picture = latents * signal - p * share, noise = p * signal + latents * share;
    }
    if (config_.clip_sample) picture = picture.clamp(-config_.clip_sample_range, config_.clip_sample_range);
    return picture * std::sqrt(next) + noise * std::sqrt(1 - next);
  }

 private:
  DiscreteConfig config_;
  std::vector<double> times_, a_;
};

/// To the nearest whole number, halves to the even one, as numpy rounds.
double round_even(double x) { return std::nearbyint(x); }

}  // namespace

std::vector<double> sampling_timesteps(const DiscreteConfig& config, const std::string& sampler, int64_t num_steps) {
  const auto count = config.num_train_timesteps;
  const bool one_more = sampler == "dpmpp_2m";        // its steps are those of one more, without the last
  const bool between = sampler.starts_with("euler");  // its steps may lie between training timesteps
  const auto parts = num_steps + (one_more ? 1 : 0);
  std::vector<double> times;
  if (parts > count)
    config_error("diffusion", "num_inference_steps must be at most {} for this model, not {}", count - (one_more ? 1 : 0), num_steps);
  const auto n = static_cast<double>(count);
  if (config.timestep_spacing == "linspace") {
    for (int64_t i = parts - 1; i >= (one_more ? 1 : 0); --i) {
      // A line of one point is its beginning.
      const double t = parts == 1 ? 0.0 : (n - 1) * static_cast<double>(i) / static_cast<double>(parts - 1);
      times.push_back(between ? t : round_even(t));
    }
  } else if (config.timestep_spacing == "leading") {
    for (int64_t i = parts - 1; i >= (one_more ? 1 : 0); --i)
      times.push_back(static_cast<double>(i * (count / parts) + config.steps_offset));
  } else {
    const double width = n / static_cast<double>(num_steps);
    for (int64_t i = 0; i < num_steps; ++i) times.push_back(round_even(n - static_cast<double>(i) * width) - 1);
  }
  if (times.front() > n - 1) {
    config_error("diffusion", "{} steps with steps_offset {} reach beyond the last timestep, {}; take fewer steps", num_steps,
                 config.steps_offset, count - 1);
  }
  return times;
}

std::unique_ptr<Sampler> discrete_sampler(const DiscreteConfig& given, const SamplerOptions& options,
                                          const std::vector<double>& alphas_cumprod) {
  check(options);
  if (options.name == "unipc" || options.name == "lcm")
    config_error("diffusion", "sampler {} is for models that flow; choose euler, euler_a, dpmpp_2m or ddim", options.name);
  auto config = given;
  const auto name = options.name == "default" ? config.sampler : options.name;
  if (options.timestep_spacing == "diffsynth")
    config_error("diffusion", "timestep_spacing diffsynth spaces the steps of models that flow; choose leading, trailing or linspace");
  if (options.timestep_spacing != "default") config.timestep_spacing = options.timestep_spacing;
  auto times = sampling_timesteps(config, name, options.num_steps);
  if (name == "ddim") return std::make_unique<Ddim>(config, std::move(times), alphas_cumprod);
  const auto all = sigmas_of(alphas_cumprod);
  Steps steps{
      .times = times, .sigmas = {}, .prediction_type = config.prediction_type, .starts_at_maximum = config.timestep_spacing != "leading"};
  for (const double t : times) steps.sigmas.push_back(sigma_at(all, t));
  steps.sigmas.push_back(0);
  if (name == "euler") return std::make_unique<Euler>(std::move(steps));
  if (name == "euler_a") return std::make_unique<EulerAncestral>(std::move(steps));
  return std::make_unique<DpmPlusPlus2M>(std::move(steps));
}

}  // namespace burnish::diffusion
