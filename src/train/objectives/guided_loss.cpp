#include "train/objectives/guided_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "base/input_error.h"

namespace burnish::train {

namespace {

const char* const kScale = "training_cfg_scale";
const char* const kHighest = "training_cfg_scale_max";
const char* const kSchedule = "training_cfg_schedule";
const char* const kZero = "training_cfg_zero";
const char* const kMoved = "training_cfg_loss";
const char* const kAwayPrompt = "training_cfg_negative_prompt";

/// The prefix of the values of the prompt that guidance leads away from where that is not the empty one.
const std::string kAway = "away_";

/// Makes the prediction that is led away from as long as the target along it.
at::Tensor scaled_away(const at::Tensor& away, const at::Tensor& target) {
  auto away_BN = away.flatten(1), target_BN = target.flatten(1);
  return away * beside((away_BN * target_BN).sum(1) / (away_BN.square().sum(1) + 1e-8), away);
}

}  // namespace

Pass GuidedLoss::away() const { return {.prompt = away_prompt.empty() ? kNegative : kAway, .has_gradient = false}; }

GuidedLoss guided_loss_of(const models::OptionValues& own) {
  return {.scale = own.get<double>(kScale),
          .highest = own.get<double>(kHighest),
          .by_time = own.get<std::string>(kSchedule) == "sigma",
          .scales_away = own.get<bool>(kZero),
          .moves_target = own.get<std::string>(kMoved) == "target",
          .away_prompt = own.get<std::string>(kAwayPrompt)};
}

std::vector<models::Option> guidance_options() {
  return {
      {.name = kScale,
       .help =
           "train as if pictures were drawn under classifier-free guidance of this scale, for models that shall do without it; 1 is off",
       .otherwise = 1.0,
       .elsewhere = "",
       .least = 1},
      {.name = kHighest,
       .help = "each visit draws its scale between training_cfg_scale and this; 0: all have that one",
       .otherwise = 0.0,
       .elsewhere = "",
       .least = 0},
      {.name = kSchedule,
       .help = "constant, or sigma: the scale falls to 1 where there is no noise",
       .otherwise = std::string("constant"),
       .elsewhere = "",
       .choices = {"constant", "sigma"}},
      {.name = kZero,
       .help = "first make the prediction that guidance leads away from as long as the target along it (CFG-Zero)",
       .otherwise = false,
       .elsewhere = ""},
      {.name = kAwayPrompt,
       .help = "prompt that this guidance leads away from; empty: no prompt",
       .otherwise = std::string(),
       .elsewhere = ""},
      {.name = kMoved,
       .help = "prediction: guides the prediction, as DiffSynth-Studio; target: moves the target, as ai-toolkit, whose loss is the square "
               "of the scale times as large",
       .otherwise = std::string("prediction"),
       .elsewhere = "",
       .choices = {"prediction", "target"}}};
}

std::vector<OwnCondition> guidance_conditions() {
  auto guides = [](const models::OptionValues& own) { return guided_loss_of(own).is_on(); };
  std::vector<OwnCondition> conditions;
  for (const char* name : {kSchedule, kZero, kAwayPrompt, kMoved}) conditions.push_back({name, "training_cfg_scale above 1", guides});
  return conditions;
}

std::vector<Input> guidance_inputs(const GuidedLoss& loss) {
  return {prompt_input(kAway, [text = loss.away_prompt](const Sample&) { return text; })};
}

void check_guidance(const GuidedLoss& loss, const RunForObjective& run) {
  if (loss.highest > 0 && loss.highest < loss.scale)
    config_error("train", "{} {} is below {} {}; it is the upper end of the range in which visits draw", kHighest, loss.highest, kScale,
                 loss.scale);
  if (loss.highest > 0 && run.replays) config_error("train", "replay has no scales of guidance; take {} out", kHighest);
}

at::Tensor training_scales(const GuidedLoss& loss, const at::Tensor& drawn_B, const std::vector<double>& shares) {
  std::vector<double> scales;
  for (size_t i = 0; i < shares.size(); ++i) {
    auto scale = drawn_B.defined() ? static_cast<double>(drawn_B.const_data_ptr<float>()[i]) : loss.scale;
    scales.push_back(loss.by_time ? 1 + (scale - 1) * shares[i] : scale);
  }
  return at::tensor(scales, at::TensorOptions().dtype(at::kFloat));
}

ComparedTensors guided(const GuidedLoss& loss, const ComparedTensors& plain, const at::Tensor& away, const at::Tensor& scale_B) {
  auto u = away.detach().to(at::kFloat);
  const auto scale = beside(scale_B, plain.prediction);
  if (loss.scales_away) u = scaled_away(u, plain.target);
  if (loss.moves_target) return {plain.prediction, u + scale * (plain.target - u)};
  return {(plain.prediction.to(at::kFloat) + (scale - 1) * u) / scale, plain.target};
}

}  // namespace burnish::train
