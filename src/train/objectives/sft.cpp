// Supervised fine-tuning: the denoiser predicts what was added to the sample's latents, at a time that is drawn.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <stdexcept>

#include "diffusion/flow_match.h"
#include "memory/transfer.h"
#include "train/objectives/objective.h"
#include "train/samples/draws.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

/// Shares of the way from no noise to noise alone at which held-out samples are judged.
constexpr std::array kHeldOutShares{0.1, 0.25, 0.4, 0.55, 0.7, 0.85};

class Sft final : public Objective {
 public:
  Sft(const ObjectiveSettings& settings, const Subject& subject)
      : settings_(settings), model_(*subject), experts_(subject.chosen.experts), stretch_(subject.chosen.stretch()) {}

  pipeline::Units units() const override {
    auto units = training_units(model_, experts_);
    for (auto& unit : loss_units(model_, settings_.sample_loss)) units.push_back(std::move(unit));
    return units;
  }

  pipeline::Values draws(const DrawRequest& request) const override {
    const auto& shape = request.samples.at(0)->latent_shape;
    std::vector<double> time;
    const auto stretch = stretch_of(request);
    for (const auto& visit : request.visits) time.push_back(draw_time(stretch, visit, Purpose::timestep, shape));
    pipeline::Values draws{{time_name(), at::tensor(time, at::TensorOptions().dtype(at::kFloat))}};
    for (const auto& stream : model_.latent_space().streams) {
      auto name = stream.value("noise");
      if (request.names.contains(name)) draws[name] = noise(request.visits, shape_of(*request.samples.at(0), stream.name), stream.name);
    }
    if (request.names.contains("latent_noise"))
      draws["latent_noise"] = normal_noise(request.visits, shape, settings_.seed, Purpose::latents);
    return draws;
  }

  int64_t num_held_out_draws() const override { return std::ssize(kHeldOutShares); }

  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    const auto& sample = *request.samples.at(0);
    RandomKey key{0, static_cast<uint64_t>(number), static_cast<uint64_t>(sample.row), Purpose::validation};
    auto share = stretch_.from + kHeldOutShares.at(static_cast<size_t>(number)) * (stretch_.to - stretch_.from);
    auto time = model_.process().time_at(share);
    pipeline::Values draws{{time_name(), at::full({1}, time, at::kFloat)}};
    for (const auto& stream : model_.latent_space().streams) {
      auto noise = diffusion::normal_noise(models::stream_key(key.value(), stream.name), shape_of(sample, stream.name)).unsqueeze(0);
      draws[stream.value("noise")] = noise;
    }
    if (settings_.draws_latents) draws["latent_noise"] = at::zeros_like(std::get<at::Tensor>(draws.at("noise")));  // the mean
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
  std::string time_name() const { return model_.process().time_name(); }

  double draw_time(const diffusion::Stretch& stretch, const data::Visit& visit, Purpose purpose, at::IntArrayRef shape) const {
    return diffusion::draw_time_in(stretch, model_.process(), settings_.timesteps, key_of(visit, settings_.seed, purpose),
                                   model_.latent_space().num_tokens(shape));
  }

  /// Where the times of a batch lie. All are one expert's: of several, each gets as many batches as it has of the times' distribution.
  diffusion::Stretch stretch_of(const DrawRequest& request) const {
    if (experts_.size() == 1) return stretch_;
    auto time = draw_time(stretch_, request.lead, Purpose::expert, request.samples.at(0)->latent_shape);
    return model_.names().experts.at(static_cast<size_t>(expert_of({time}))).stretch;
  }

  /// The number of the expert that predicts at these times.
  int64_t expert_of(const std::vector<double>& times) const {
    const auto& process = model_.process();
    const auto number = model_.names().expert_at(process.share_of(times.at(0)));
    for (auto time : times) {
      if (model_.names().expert_at(process.share_of(time)) != number) throw std::logic_error("a batch has times of two experts");
    }
    return static_cast<int64_t>(number);
  }

  /// The offset is one of pictures' channels, and of the first stream alone.
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
  diffusion::Stretch stretch_;  ///< of all of them
};

}  // namespace

std::unique_ptr<Objective> make_sft(const ObjectiveSettings& settings, const Subject& subject) {
  return std::make_unique<Sft>(settings, subject);
}

const ObjectiveKind& sft() {
  static const ObjectiveKind kind{.word = "sft", .imports_diffsynth = true, .make = make_sft};
  return kind;
}

}  // namespace burnish::train
