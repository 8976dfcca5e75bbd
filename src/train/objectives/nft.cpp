#include "train/objectives/nft.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "train/objectives/objective.h"
#include "train/objectives/passes.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

namespace {

constexpr double kLeastDivisor = 1e-5, kLeastDeviation = 1e-4;

at::Tensor mean_of_samples(const at::Tensor& x_BX) { return x_BX.flatten(1).mean(1); }

/// Computes e(y) of each sample [B].
at::Tensor scaled_error(const at::Tensor& taken, const at::Tensor& x0) {
  const auto difference = taken - x0;
  const auto divisor_B = mean_of_samples(difference.detach().abs().to(at::kDouble)).clamp_min(kLeastDivisor).to(at::kFloat);
  return mean_of_samples(difference.square()) / divisor_B;
}

/// The unit that has drawn pictures take the place of encoded ones.
pipeline::Unit taking_unit(const models::LatentSpace& space) {
  pipeline::Unit unit{"take_drawn_picture", {}, {}, {}, {}};
  for (const auto& stream : space.streams) {
    unit.reads.push_back(stream.value(kDrawnPicture));
    unit.writes.push_back(stream.name);
  }
  unit.run = [&space](pipeline::Scope& scope) {
    for (const auto& stream : space.streams) scope.write(stream.name, scope.tensor(stream.value(kDrawnPicture)));
  };
  return unit;
}

pipeline::Units nft_units(const Subject& subject, const NftOptions& options) {
  const auto groups = subject.units();
  pipeline::Units units;
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  for (const auto* group : {&groups.encode_prompt, &groups.encode_references, &groups.encode_size}) add(*group);
  add({taking_unit((*subject).latent_space())});
  add(groups.add_noise);
  add(groups.denoise);
  units = with_passes(units, subject, {{.before_training = true}});
  add({nft_unit(*subject, options)});
  return pipeline::leading_to(units, {"loss"});
}

class NegativeAware final : public Objective {
 public:
  NegativeAware(ObjectiveSettings settings, const Subject& subject)
      : own_(nft_options_of(settings.own)), space_(subject.model->latent_space()), units_(nft_units(subject, own_)) {
    settings.loss.weighting = "uniform";
    visits_ = make_sft(settings, subject);
  }

  pipeline::Units units() const override { return units_; }
  std::set<std::string> without_gradient() const override {
    auto names = units_without_gradient(units_, {{.before_training = true}});
    names.insert("take_drawn_picture");
    return names;
  }
  std::vector<std::string> logged() const override { return nft_logged(own_.reward); }
  std::optional<RoundRule> rounds() const override { return own_.rounds; }

  /// Draws noise and time as supervised fine-tuning does. What a drawing gives is put in its place later (train/run/rollouts.h).
  pipeline::Values draws(const DrawRequest& request) const override {
    auto draws = visits_->draws(request);
    const auto count = std::ssize(request.samples);
    auto blank = [&](const std::string& name, std::vector<int64_t> shape) {
      if (!request.names.contains(name)) return;
      shape.insert(shape.begin(), count);
      draws[name] = at::zeros(shape, at::TensorOptions().dtype(at::kFloat));
    };
    blank(kOptimality, {});
    blank(kRoundScores, {2 + std::ssize(own_.reward.terms)});
    for (const auto& stream : space_.streams) blank(stream.value(kDrawnPicture), shape_of(*request.samples.at(0), stream.name));
    return draws;
  }
  /// A run of it has no held-out samples (check_nft).
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t /*number*/) const override { return draws(request); }
  /// Recorded draws hold no prediction of the policy that drew either.
  void complete(pipeline::Values& draws) const override {
    visits_->complete(draws);
    for (const auto& stream : space_.streams) {
      const auto noise = draws.find(stream.value("noise"));
      if (noise != draws.end()) draws[stream.value(kOldPrediction)] = at::zeros_like(std::get<at::Tensor>(noise->second));
    }
  }
  std::vector<Counted> counted(const pipeline::Values& draws) const override { return visits_->counted(draws); }

 private:
  NftOptions own_;
  const models::LatentSpace& space_;
  pipeline::Units units_;
  std::unique_ptr<Objective> visits_;
};

void check_nft(const RunForObjective& run) {
  const auto own = nft_options_of(run.own);
  if (own.reward.terms.empty() && !run.replays)
    config_error("train",
                 "nft learns from scores, and nothing scores; name what does with --reward prompt --reward_model "
                 "openai/clip-vit-large-patch14, or with --{} 'python score.py'",
                 kRewardProgram);
  if (run.loss_type != "l2") config_error("train", "nft compares squared errors; take loss_type {} out", run.loss_type);
  if (run.is_weighed) config_error("train", "nft weighs pictures by their scores; take loss_weighting and min_snr_gamma out");
  if (run.has_masks) config_error("train", "nft learns from pictures that the model draws, and these have no masks; take masked_loss out");
  if (run.noise_offset != 0) config_error("train", "nft learns from noise as it is drawn with; take noise_offset out");
  if (run.draws_latents) config_error("train", "nft learns from latents that the model draws; take latents sample out");
  if (run.validates)
    config_error(
        "train",
        "nft has no loss that says how good a model is; take validation_metadata_path out, and look at reward and drift in the log, "
        "and at previews (preview_prompts)");
  if (run.names_data && !run.own.get<std::string>(kNftPrompts).empty())
    config_error("train", "{} is for runs without pictures, whose captions would be drawn; take it or the data out", kNftPrompts);
}

std::string nft_fingerprint(const models::OptionValues& own) {
  auto options = nft_options();
  // A command that failed may be another when the run goes on; which scores count stays as it was.
  std::erase_if(options, [](const auto& option) {
    return option.name == kRewardTimeout || option.name == kRewardProgram || option.name == kNftPrompts;
  });
  return given_options(options, own);
}

bool nft_needs_pictures(const models::OptionValues& own) { return own.get<std::string>(kNftPrompts).empty(); }

std::vector<Share> nft_shares(const models::OptionValues& own) {
  std::vector<Share> shares;
  for (const auto& prompt : nft_prompts_of(own)) shares.push_back({.prompt = prompt});
  return shares.empty() ? plain::shares(own) : shares;
}

std::unique_ptr<Objective> make_nft(const ObjectiveSettings& settings, const Subject& subject) {
  const auto& model = *subject;
  if (model.process().time_name() != "sigma")
    config_error("train", "nft learns along flows, and {} has discrete timesteps; choose dpo", model.names().variant);
  if (model.names().experts.size() > 1) config_error("train", "nft trains one denoiser, and this model has more; choose dpo");
  if (!written_maps(*subject, Judged::drawings).empty())
    config_error("train", "nft judges whole latents, and of this model's not all count; choose dpo");
  if (!subject.chosen.whole_components().empty())
    config_error("train", "nft compares with the model before training, which an adapter can be switched off for; train an adapter");
  return std::make_unique<NegativeAware>(settings, subject);
}

}  // namespace

at::Tensor optimality_of(const at::Tensor& scores_N, int64_t group_size, double most_advantage) {
  const auto scores_GK = scores_N.to(at::kDouble).view({-1, group_size});
  const auto apart_N = (scores_GK - scores_GK.mean(1, /*keepdim=*/true)).flatten();
  const auto mean = scores_N.to(at::kDouble).mean();
  const auto deviation = (scores_N.to(at::kDouble) - mean).square().mean().sqrt() + kLeastDeviation;
  return at::clamp(apart_N / deviation / most_advantage, -1, 1) / 2 + 0.5;
}

std::vector<std::string> nft_logged(const RewardOptions& reward) {
  std::vector<std::string> names{"reward", "reward_spread"};
  for (const auto& term : reward.terms) {
    if (reward.terms.size() > 1) names.push_back("reward_" + term.name);
  }
  for (const char* name : {"policy_loss", "kl_loss", "drift"}) names.emplace_back(name);
  return names;
}

pipeline::Unit nft_unit(models::Model& model, const NftOptions& options) {
  const auto& space = model.latent_space();
  const auto& process = model.process();
  const auto logged = nft_logged(options.reward);
  pipeline::Unit unit{"nft", {process.time_name(), kOptimality, kRoundScores}, {"loss"}, {}, {}};
  unit.writes.insert(unit.writes.end(), logged.begin(), logged.end());
  for (const auto& stream : space.streams) {
    if (stream.weight == 0) continue;  // it is seen, and not judged
    for (const auto& name : {stream.value("prediction"), kReference + stream.value("prediction"), stream.value(kOldPrediction),
                             stream.value("noisy"), stream.name})
      unit.reads.push_back(name);
  }
  unit.run = [=, &space, &process](pipeline::Scope& s) {
    const auto r_B = s.tensor(kOptimality).to(at::kFloat);
    const auto& time_B = s.tensor(process.time_name());
    auto sum = [&](const auto& of_stream) { return sum_of_streams(space, of_stream, Judged::drawings); };
    auto number = [&](const std::string& name) { return s.tensor(name).to(at::kFloat); };
    auto policy_B = sum([&](const models::LatentSpace::Stream& stream) {
      const auto v = number(stream.value("prediction")), old = number(stream.value(kOldPrediction));
      const auto x = number(stream.value("noisy")), x0 = number(stream.name);
      const auto level = beside(process.level(stream.name, time_B).to(at::kFloat), x);
      const auto better = options.beta * v + (1 - options.beta) * old, worse = (1 + options.beta) * old - options.beta * v;
      return (r_B * scaled_error(x - level * better, x0) + (1 - r_B) * scaled_error(x - level * worse, x0)) *
             (options.most_advantage / options.beta);
    });
    auto before = [&](const models::LatentSpace::Stream& stream) { return number(kReference + stream.value("prediction")); };
    auto kl_B = sum([&](const models::LatentSpace::Stream& stream) {
      return mean_of_samples((number(stream.value("prediction")) - before(stream)).square());
    });
    auto size_B = sum([&](const models::LatentSpace::Stream& stream) { return mean_of_samples(before(stream).square()); });
    s.write("loss", policy_B + options.kl_weight * kl_B);
    s.write("policy_loss", policy_B.detach());
    s.write("kl_loss", kl_B.detach());
    s.write("drift", (kl_B.detach() / size_B.clamp_min(kLeastDivisor)).sqrt());
    const auto& scores = s.tensor(kRoundScores);
    for (size_t i = 0; i + 3 < logged.size(); ++i) s.write(logged[i], scores.select(1, static_cast<int64_t>(i)));
  };
  return unit;
}

const ObjectiveKind& nft() {
  static const ObjectiveKind kind{.word = "nft",
                                  .drawn = {{kOptimality}, {kRoundScores}},
                                  .draws_times = true,
                                  .draws_itself = true,
                                  .needs_pictures = nft_needs_pictures,
                                  .shares = nft_shares,
                                  .options = nft_options(),
                                  .files = {kNftPrompts},
                                  .commands = {kRewardProgram},
                                  .conditions = nft_conditions(),
                                  .check = check_nft,
                                  .fingerprint = nft_fingerprint,
                                  .make = make_nft};
  return kind;
}

}  // namespace burnish::train
