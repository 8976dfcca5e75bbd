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
  const at::Tensor& drawn(const char* name) const { return scope_.tensor(name); }
  at::Tensor matched(const at::Tensor& x0) const { return model_.process().add_noise(x0, drawn(kMatchingNoise), drawn(kMatchingSigma)); }
  void predict(const std::string& component, const at::Tensor& noisy, const at::Tensor& sigma_B, pipeline::Values& values) const;
  at::Tensor x0_of(const std::string& component, const at::Tensor& noisy, const at::Tensor& sigma_B,
                   const pipeline::Values& conditions) const;
  at::Tensor seen_by_student() const;
  at::Tensor made_by_student() const;
  at::Tensor teacher_x0(const at::Tensor& noisy) const;
  at::Tensor logits_of(const Discriminator& judge, const at::Tensor& noisy, bool has_gradient) const;
  Discriminator& discriminator() const { return static_cast<Discriminator&>(model_.components().module(kDiscriminator)); }
  void write(const at::Tensor& loss_B, const std::vector<std::pair<std::string, at::Tensor>>& logged) const;

  models::Model& model_;
  const Dmd2Options& options_;
  const drawing::Denoiser& denoiser_;
  pipeline::Scope& scope_;
  pipeline::Values conditions_, away_;
};

/// Runs the denoiser's units with a component in its place.
void Visit::predict(const std::string& component, const at::Tensor& noisy, const at::Tensor& sigma_B, pipeline::Values& values) const {
  values["noisy"] = noisy;
  values[denoiser_.process.time_name()] = sigma_B;
  const auto& own = model_.names().experts.front().component;
  std::optional<models::InPlace> in_place;
  if (component != own) in_place.emplace(model_.components(), own, component);
  pipeline::run(denoiser_.stages.front().units, values);
}

at::Tensor Visit::x0_of(const std::string& component, const at::Tensor& noisy, const at::Tensor& sigma_B,
                        const pipeline::Values& conditions) const {
  auto values = conditions;
  predict(component, noisy, sigma_B, values);
  return noisy - beside(sigma_B, noisy) * std::get<at::Tensor>(values.at("prediction")).to(at::kFloat);
}

/// Returns what the student sees at one of its times: its own drawing up to there, or data with noise; noise alone where it has one step.
at::Tensor Visit::seen_by_student() const {
  if (options_.simulates) return drawn("noisy");
  const auto &noise = drawn("noise"), &sigma_B = drawn("sigma");
  const bool is_one_step = options_.student_sigmas.size() == 2;
  return is_one_step ? beside(sigma_B, noise) * noise : model_.process().add_noise(drawn("latents"), noise, sigma_B);
}

at::Tensor Visit::made_by_student() const {
  return x0_of(model_.names().experts.front().component, seen_by_student(), drawn("sigma"), conditions_);
}

at::Tensor Visit::teacher_x0(const at::Tensor& noisy) const {
  auto x0 = x0_of(kTeacher, noisy, drawn(kMatchingSigma), conditions_);
  if (away_.empty()) return x0;
  auto away = x0_of(kTeacher, noisy, drawn(kMatchingSigma), away_);
  return away + options_.teacher_cfg_scale * (x0 - away);
}

at::Tensor Visit::logits_of(const Discriminator& judge, const at::Tensor& noisy, bool has_gradient) const {
  std::vector<at::Tensor> features;
  {
    at::AutoGradMode record(has_gradient);
    auto values = conditions_;
    features = features_behind(model_.components().blocks(kTeacher), options_.adversarial.features, model_, noisy,
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
  at::Tensor target;
  {
    at::NoGradGuard no_grad;
    auto fake = x0_of(kFakeScore, noisy, drawn(kMatchingSigma), conditions_), real = teacher_x0(noisy);
    constexpr double kSmallest = 1e-6;
    target = made - (fake - real) / (beside(mean_of_sample((made - real).abs()), made) + kSmallest);
  }
  auto matching_B = mean_of_sample((made - target).square()) / 2;
  if (!options_.adversarial.is_on()) return write(matching_B, {{kDmd2Losses[0], matching_B}});
  auto adversarial_B = at::softplus(-logits_of(*discriminator().frozen(), noisy, /*has_gradient=*/true)).mean(1);
  write(matching_B + options_.adversarial.weight * adversarial_B, {{kDmd2Losses[0], matching_B}, {kDmd2Losses[1], adversarial_B}});
}

void Visit::critic_step() {
  at::Tensor made, noisy;
  {
    at::NoGradGuard no_grad;
    made = made_by_student();
    noisy = matched(made);
  }
  auto fake_B = mean_of_sample((x0_of(kFakeScore, noisy, drawn(kMatchingSigma), conditions_) - made).square());
  const auto& adversarial = options_.adversarial;
  if (!adversarial.is_on()) return write(fake_B, {{kDmd2Losses[2], fake_B}});
  const auto& data = drawn("latents");
  const auto& judge = discriminator();
  auto of_data = logits_of(judge, matched(data), false);
  auto judged_B = at::softplus(logits_of(judge, noisy, false)).mean(1) + at::softplus(-of_data).mean(1);
  auto loss_B = fake_B + judged_B;
  if (adversarial.has_r1()) {
    auto moved = logits_of(judge, data + adversarial.r1_alpha * drawn(kRegularisingNoise), false);
    loss_B = loss_B + adversarial.r1_weight * (of_data - moved).square().mean(1);
  }
  write(loss_B, {{kDmd2Losses[2], fake_B}, {kDmd2Losses[3], judged_B}});
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
  unit.reads.insert(unit.reads.end(), {"sigma", kMatchingSigma, kMatchingNoise, kPhase});
  if (options.simulates) unit.reads.emplace_back("noisy");
  else unit.reads.emplace_back("noise");
  if (!options.simulates || options.adversarial.is_on()) unit.reads.emplace_back("latents");
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
