#include "train/objectives/dmd2.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/softplus.h>

#include <limits>
#include <optional>

#include "drawing/walk.h"
#include "train/objectives/block_features.h"
#include "train/objectives/discriminator.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

namespace {

/// Computes the mean over all elements of each sample.
at::Tensor mean_of_sample(const at::Tensor& x) { return x.flatten(1).mean(1); }

/// Latents, or predictions, of every stream by its name.
using Tensors = std::map<std::string, at::Tensor>;
using Stream = models::LatentSpace::Stream;

/// A visit on its way through one step.
class Visit {
 public:
  Visit(models::Model& model, const Dmd2Options& options, const drawing::Denoiser& denoiser, pipeline::Scope& scope,
        const std::set<std::string>& negative)
      : model_(model), options_(options), denoiser_(denoiser), scope_(scope) {
    for (const auto& name : denoiser.condition_names()) {
      conditions_[name] = scope.value(name);
      if (!negative.empty()) away_[name] = scope.value(negative.contains(name) ? kNegative + name : name);
    }
  }

  void student_step();
  void critic_step();

 private:
  const at::Tensor& drawn(const std::string& name) const { return scope_.tensor(name); }
  at::Tensor level(const Stream& stream, const at::Tensor& time_B) const { return model_.process().level(stream.name, time_B); }
  Tensors of_streams(const std::function<at::Tensor(const Stream&)>& of_stream) const;
  at::Tensor judged_B(const std::function<at::Tensor(const Stream&)>& mean_of_stream) const;
  Tensors matched(const Tensors& x0) const;
  void predict(const std::string& component, const Tensors& noisy, const at::Tensor& sigma_B, pipeline::Values& values) const;
  Tensors x0_of(const std::string& component, const Tensors& noisy, const at::Tensor& sigma_B, const pipeline::Values& conditions) const;
  at::Tensor seen_by_student(const Stream& stream) const;
  Tensors made_by_student() const;
  Tensors teacher_x0(const Tensors& noisy) const;
  Tensors data() const;
  at::Tensor logits_of(const Discriminator& judge, const Tensors& noisy, bool has_gradient) const;
  Discriminator& discriminator() const { return static_cast<Discriminator&>(model_.components().module(kDiscriminator)); }
  void write(const at::Tensor& loss_B, const std::vector<std::pair<std::string, at::Tensor>>& logged) const;

  models::Model& model_;
  const Dmd2Options& options_;
  const drawing::Denoiser& denoiser_;
  pipeline::Scope& scope_;
  pipeline::Values conditions_, away_;
};

Tensors Visit::of_streams(const std::function<at::Tensor(const Stream&)>& of_stream) const {
  Tensors all;
  for (const auto& stream : model_.latent_space().streams) all[stream.name] = of_stream(stream);
  return all;
}

/// Sums the losses [B] of streams.
at::Tensor Visit::judged_B(const std::function<at::Tensor(const Stream&)>& mean_of_stream) const {
  return sum_of_streams(model_.latent_space(), mean_of_stream, Judged::drawings);
}

Tensors Visit::matched(const Tensors& x0) const {
  return of_streams([&](const Stream& stream) {
    return model_.process().add_noise(x0.at(stream.name), drawn(stream.value(kMatchingNoise)), level(stream, drawn(kMatchingSigma)));
  });
}

/// Runs the denoiser's units with a component in its place.
void Visit::predict(const std::string& component, const Tensors& noisy, const at::Tensor& sigma_B, pipeline::Values& values) const {
  for (const auto& [stream, tensor] : noisy) values[models::stream_value(stream, "noisy")] = tensor;
  values[denoiser_.process.time_name()] = sigma_B;
  const auto& own = model_.names().experts.front().component;
  std::optional<models::InPlace> in_place;
  if (component != own) in_place.emplace(model_.components(), own, component);
  pipeline::run(denoiser_.stages.front().units, values);
}

Tensors Visit::x0_of(const std::string& component, const Tensors& noisy, const at::Tensor& sigma_B,
                     const pipeline::Values& conditions) const {
  auto values = conditions;
  predict(component, noisy, sigma_B, values);
  return of_streams([&](const Stream& stream) {
    const auto& x = noisy.at(stream.name);
    return x - beside(level(stream, sigma_B), x) * std::get<at::Tensor>(values.at(stream.value("prediction"))).to(at::kFloat);
  });
}

/// Returns what the student sees at one of its times: its own drawing up to there, or data with noise; noise alone where it has one step.
at::Tensor Visit::seen_by_student(const Stream& stream) const {
  if (options_.simulates) return drawn(stream.value("noisy"));
  const auto& noise = drawn(stream.value("noise"));
  const auto level_B = level(stream, drawn("sigma"));
  const bool is_one_step = options_.student_sigmas.size() == 2;
  return is_one_step ? beside(level_B, noise) * noise : model_.process().add_noise(drawn(stream.name), noise, level_B);
}

Tensors Visit::made_by_student() const {
  const auto seen = of_streams([&](const Stream& stream) { return seen_by_student(stream); });
  return x0_of(model_.names().experts.front().component, seen, drawn("sigma"), conditions_);
}

Tensors Visit::teacher_x0(const Tensors& noisy) const {
  auto x0 = x0_of(kTeacher, noisy, drawn(kMatchingSigma), conditions_);
  if (away_.empty()) return x0;
  const auto away = x0_of(kTeacher, noisy, drawn(kMatchingSigma), away_);
  for (auto& [stream, tensor] : x0) tensor = away.at(stream) + options_.teacher_cfg_scale * (tensor - away.at(stream));
  return x0;
}

Tensors Visit::data() const {
  return of_streams([&](const Stream& stream) { return drawn(stream.name); });
}

at::Tensor Visit::logits_of(const Discriminator& judge, const Tensors& noisy, bool has_gradient) const {
  std::vector<at::Tensor> features;
  {
    at::AutoGradMode record(has_gradient);
    auto values = conditions_;
    features = features_behind(model_.components().blocks(kTeacher), options_.adversarial.features, model_, noisy.at(models::kLatents),
                               [&] { predict(kTeacher, noisy, drawn(kMatchingSigma), values); });
  }
  return judge.forward(features);
}

void Visit::write(const at::Tensor& loss_B, const std::vector<std::pair<std::string, at::Tensor>>& logged) const {
  scope_.write("loss", loss_B);
  for (const auto& name : kDmd2Losses) scope_.write(name, at::full_like(loss_B.detach(), std::numeric_limits<double>::quiet_NaN()));
  for (const auto& [name, value] : logged) scope_.write(name, value.detach());
}

void Visit::student_step() {
  auto made = made_by_student(), noisy = matched(made);
  Tensors target;
  {
    at::NoGradGuard no_grad;
    auto fake = x0_of(kFakeScore, noisy, drawn(kMatchingSigma), conditions_), real = teacher_x0(noisy);
    constexpr double kSmallest = 1e-6;
    target = of_streams([&](const Stream& stream) {
      const auto &x = made.at(stream.name), &r = real.at(stream.name);
      return x - (fake.at(stream.name) - r) / (beside(mean_of_sample((x - r).abs()), x) + kSmallest);
    });
  }
  auto matching_B =
      judged_B([&](const Stream& stream) { return mean_of_sample((made.at(stream.name) - target.at(stream.name)).square()) / 2; });
  if (!options_.adversarial.is_on()) return write(matching_B, {{kDmd2Losses[0], matching_B}});
  auto adversarial_B = at::softplus(-logits_of(*discriminator().frozen(), noisy, /*has_gradient=*/true)).mean(1);
  write(matching_B + options_.adversarial.weight * adversarial_B, {{kDmd2Losses[0], matching_B}, {kDmd2Losses[1], adversarial_B}});
}

void Visit::critic_step() {
  Tensors made, noisy;
  {
    at::NoGradGuard no_grad;
    made = made_by_student();
    noisy = matched(made);
  }
  const auto fake = x0_of(kFakeScore, noisy, drawn(kMatchingSigma), conditions_);
  auto fake_B = judged_B([&](const Stream& stream) { return mean_of_sample((fake.at(stream.name) - made.at(stream.name)).square()); });
  const auto& adversarial = options_.adversarial;
  if (!adversarial.is_on()) return write(fake_B, {{kDmd2Losses[2], fake_B}});
  auto samples = data();
  const auto& judge = discriminator();
  auto of_data = logits_of(judge, matched(samples), false);
  auto told_B = at::softplus(logits_of(judge, noisy, false)).mean(1) + at::softplus(-of_data).mean(1);
  auto loss_B = fake_B + told_B;
  if (adversarial.has_r1()) {
    auto& seen = samples.at(models::kLatents);  // the discriminator reads what is made of the first stream
    seen = seen + adversarial.r1_alpha * drawn(kRegularisingNoise);
    auto moved = logits_of(judge, samples, false);
    loss_B = loss_B + adversarial.r1_weight * (of_data - moved).square().mean(1);
  }
  write(loss_B, {{kDmd2Losses[2], fake_B}, {kDmd2Losses[3], told_B}});
}

}  // namespace

pipeline::Unit dmd2_unit(const Subject& subject, const Dmd2Options& options, const std::set<std::string>& negative) {
  auto& model = *subject;
  auto denoiser = drawing::denoiser_of(model, model.experts_there(), drawing::UnitsFor::training);
  pipeline::Unit unit{"dmd2", denoiser.condition_names(), kDmd2Losses, denoiser.models(), {}};
  const auto& own = model.names().experts.front().component;
  for (const char* copy : {kTeacher, kFakeScore}) {
    for (const auto& part : denoiser.models())
      if (pipeline::component_of(part) == own) unit.models.push_back(copy + part.substr(own.size()));
  }
  if (options.adversarial.is_on()) unit.models.emplace_back(kDiscriminator);
  unit.reads.insert(unit.reads.end(), {"sigma", kMatchingSigma, kPhase});
  for (const auto& stream : model.latent_space().streams) {
    unit.reads.insert(unit.reads.end(), {stream.value(kMatchingNoise), stream.value(options.simulates ? "noisy" : "noise")});
    if (!options.simulates || options.adversarial.is_on()) unit.reads.push_back(stream.name);
  }
  if (options.adversarial.has_r1()) unit.reads.emplace_back(kRegularisingNoise);
  for (const auto& name : negative) unit.reads.push_back(kNegative + name);
  unit.writes.emplace_back("loss");
  unit.run = [&model, options, denoiser, negative, models = unit.models](pipeline::Scope& scope) {
    for (const auto& name : models) scope.uses(name);
    Visit visit(model, options, denoiser, scope, negative);
    if (scope.tensor(kPhase).item<int64_t>() == student_steps) visit.student_step();
    else visit.critic_step();
  };
  return unit;
}

}  // namespace burnish::train
