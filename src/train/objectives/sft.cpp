// Supervised fine-tuning: the denoiser predicts what was added to the sample's latents, at a time that is drawn. Beside that it may be held
// to what it was.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <array>
#include <stdexcept>

#include "base/text.h"
#include "diffusion/flow_match.h"
#include "memory/transfer.h"
#include "train/objectives/objective.h"
#include "train/objectives/sft_terms.h"
#include "train/samples/draws.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

/// Shares of the way from no noise to noise alone at which held-out samples are judged.
constexpr std::array kHeldOutShares{0.1, 0.25, 0.4, 0.55, 0.7, 0.85};

/// Makes all passes, what of them is compared, and what that adds up to.
pipeline::Units sft_units(const ObjectiveSettings& settings, const Subject& subject, const SftTerms& terms) {
  const auto passes = passes_of(terms.all());
  auto units = training_units(*subject, subject.chosen.experts);
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  if (settings.has_strengths) units = at_strength_of_samples(std::move(units), subject);
  if (!passes.empty()) units = with_passes(units, subject, passes);
  if (terms.own.class_target.is_model && terms.own.class_target.has_own_rows) units = run_for_class_set(std::move(units));
  add(weighing_units(*subject, settings.sample_loss));
  for (const auto& term : terms.added) add(term_units(*subject, term));
  add(term_units(*subject, terms.own));
  if (!terms.have_total()) return passes.empty() ? units : pipeline::leading_to(units, {terms.own.name});
  add({total_unit("total", kTotalLoss, terms.all())});
  return pipeline::leading_to(units, {kTotalLoss});
}

class Sft final : public Objective {
 public:
  Sft(const ObjectiveSettings& settings, const Subject& subject)
      : settings_(settings),
        model_(*subject),
        experts_(subject.chosen.experts),
        stretch_(subject.chosen.stretch()),
        terms_(sft_terms(settings)),
        units_(sft_units(settings, subject, terms_)) {}

  pipeline::Units units() const override { return units_; }
  std::set<std::string> without_gradient() const override { return units_without_gradient(units_, passes_of(terms_.all())); }

  std::vector<std::string> logged() const override { return names_of(terms_.added); }

  std::vector<std::string> warnings(const Samples& samples) const override {
    return preservation_warnings(preservation_of(settings_.own), samples);
  }

  at::Tensor reduce(const pipeline::Values& written, const pipeline::Values& draws) const override {
    return terms_.have_total() ? std::get<at::Tensor>(written.at(kTotalLoss)).mean() : Objective::reduce(written, draws);
  }

  pipeline::Values draws(const DrawRequest& request) const override {
    const auto& shape = request.samples.at(0)->latent_shape;
    std::vector<double> time;
    const auto stretch = stretch_of(request);
    for (size_t i = 0; i < request.visits.size(); ++i) {
      const auto& visit = request.visits[i];
      time.push_back(request.strata ? stratified_time(stretch, request, i, shape) : draw_time(stretch, visit, Purpose::timestep, shape));
    }
    pipeline::Values draws{{time_name(), at::tensor(time, at::TensorOptions().dtype(at::kFloat))}};
    for (const auto& stream : model_.latent_space().streams) {
      auto name = stream.value("noise");
      if (request.names.contains(name)) draws[name] = noise(request.visits, shape_of(*request.samples.at(0), stream.name), stream.name);
    }
    if (request.names.contains("latent_noise"))
      draws["latent_noise"] = normal_noise(request.visits, shape, settings_.seed, Purpose::latents);
    if (guidance().highest > 0) draws[kTrainingScale] = scales(request.visits);
    return draws;
  }

  int64_t num_held_out_draws() const override { return std::ssize(kHeldOutShares); }

  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    const auto& sample = *request.samples.at(0);
    RandomKey key{0, static_cast<uint64_t>(number), static_cast<uint64_t>(sample.number), Purpose::validation};
    auto share = stretch_.from + kHeldOutShares.at(static_cast<size_t>(number)) * (stretch_.to - stretch_.from);
    auto time = model_.process().time_at(share);
    pipeline::Values draws{{time_name(), at::full({1}, time, at::kFloat)}};
    for (const auto& stream : model_.latent_space().streams) {
      auto noise = diffusion::normal_noise(models::stream_key(key.value(), stream.name), shape_of(sample, stream.name)).unsqueeze(0);
      draws[stream.value("noise")] = noise;
    }
    if (settings_.draws_latents) draws["latent_noise"] = at::zeros_like(std::get<at::Tensor>(draws.at("noise")));  // the mean
    if (guidance().highest > 0) draws[kTrainingScale] = at::full({1}, (guidance().scale + guidance().highest) / 2, at::kFloat);
    return draws;
  }

  void complete(pipeline::Values& draws) const override {
    const auto& time_B = std::get<at::Tensor>(draws.at(time_name()));
    auto weight_B = std::get<at::Tensor>(draws.at(kLossWeight)).clone();
    auto* weight = weight_B.mutable_data_ptr<float>();
    const auto times = memory::Numbers({time_B}).read();
    if (experts_.size() > 1) draws[models::kExpert] = at::scalar_tensor(expert_of(times), at::kLong);
    for (auto time : times) {
      *weight = static_cast<float>(*weight * model_.process().loss_weight(settings_.loss, time));
      ++weight;
    }
    draws[kLossWeight] = weight_B;
    if (guidance().is_on()) complete_scales(draws, times);
  }

  std::vector<Counted> counted(const pipeline::Values& draws) const override {
    const auto& time_B = std::get<at::Tensor>(draws.at(time_name()));
    const auto& weight_B = std::get<at::Tensor>(draws.at(kLossWeight));
    std::vector<Counted> all;
    auto times = memory::Numbers({time_B}).read(), weights = memory::Numbers({weight_B}).read();
    for (size_t i = 0; i < times.size(); ++i) all.push_back({model_.process().share_of(times[i]), weights[i]});
    return all;
  }

 private:
  /// Draws the scales of visits, with a key that no other draw has.
  at::Tensor scales(const data::Visits& visits) const {
    std::vector<double> scales;
    for (const auto& visit : visits) {
      CounterRandom random(mix64(key_of(visit, settings_.seed, Purpose::timestep) ^ mix64(kTrainingScale)));
      scales.push_back(guidance().scale + (guidance().highest - guidance().scale) * random.uniform());
    }
    return at::tensor(scales, at::TensorOptions().dtype(at::kFloat));
  }

  void complete_scales(pipeline::Values& draws, const std::vector<double>& times) const {
    std::vector<double> shares;
    for (auto time : times) shares.push_back(model_.process().share_of(time));
    auto drawn = draws.find(kTrainingScale);
    draws[kTrainingScale] = training_scales(guidance(), drawn == draws.end() ? at::Tensor() : std::get<at::Tensor>(drawn->second), shares);
  }

  const GuidedLoss& guidance() const { return terms_.own.guidance; }
  std::string time_name() const { return model_.process().time_name(); }

  double draw_time(const diffusion::Stretch& stretch, const data::Visit& visit, Purpose purpose, at::IntArrayRef shape) const {
    return diffusion::draw_time_in(stretch, model_.process(), settings_.timesteps, key_of(visit, settings_.seed, purpose),
                                   model_.latent_space().num_tokens(shape));
  }

  double stratified_time(const diffusion::Stretch& stretch, const DrawRequest& request, size_t visit, at::IntArrayRef shape) const {
    const auto own = CounterRandom(key_of(request.visits[visit], settings_.seed, Purpose::timestep)).uniform();
    const auto share = request.strata->share(request.first_stratum + static_cast<int64_t>(visit), own);
    return diffusion::time_of_draws(stretch, model_.process(), settings_.timesteps, share, model_.latent_space().num_tokens(shape));
  }

  /// Returns the stretch in which a batch's times lie. All are one expert's: of several experts, each gets as many batches as it has of the
  /// times' distribution.
  diffusion::Stretch stretch_of(const DrawRequest& request) const {
    if (experts_.size() == 1) return stretch_;
    auto time = draw_time(stretch_, request.lead, Purpose::expert, request.samples.at(0)->latent_shape);
    return model_.names().experts.at(static_cast<size_t>(expert_of({time}))).stretch;
  }

  /// Returns the number of the expert that predicts at these times.
  int64_t expert_of(const std::vector<double>& times) const {
    const auto& process = model_.process();
    const auto number = model_.names().expert_at(process.share_of(times.at(0)));
    for (auto time : times) {
      if (model_.names().expert_at(process.share_of(time)) != number) throw std::logic_error("a batch has times of two experts");
    }
    return static_cast<int64_t>(number);
  }

  /// Draws noise; an offset shifts the channels of pictures, and so the first stream alone.
  at::Tensor noise(const data::Visits& visits, at::IntArrayRef shape, const std::string& stream) const {
    auto noise = normal_noise(visits, shape, settings_.seed, Purpose::noise, stream);
    if (settings_.noise_offset == 0 || stream != models::kLatents) return noise;
    std::vector<int64_t> a_number_a_channel(shape.size(), 1);
    a_number_a_channel[0] = shape[0];
    return noise + settings_.noise_offset * normal_noise(visits, a_number_a_channel, settings_.seed, Purpose::noise_offset);
  }

  ObjectiveSettings settings_;
  models::Model& model_;
  std::vector<models::Expert> experts_;
  diffusion::Stretch stretch_;  ///< the stretch of all experts together
  SftTerms terms_;
  pipeline::Units units_;
};

std::string sft_fingerprint(const models::OptionValues& own) { return given_options(sft_options(), own); }

}  // namespace

std::unique_ptr<Objective> make_sft(const ObjectiveSettings& settings, const Subject& subject) {
  return std::make_unique<Sft>(settings, subject);
}

const ObjectiveKind& sft() {
  static const ObjectiveKind kind{.word = "sft",
                                  .is_named = false,
                                  .drawn = {{kTrainingScale}},
                                  .draws_times = true,
                                  .counts_masks = true,
                                  .takes_strengths = true,
                                  .inputs = sft_inputs,
                                  .imports_diffsynth = true,
                                  .options = sft_options(),
                                  .conditions = sft_conditions(),
                                  .check = check_sft,
                                  .fingerprint = sft_fingerprint,
                                  .make = make_sft};
  return kind;
}

}  // namespace burnish::train
