#include "train/objectives/judged.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "base/input_error.h"
#include "memory/transfer.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

namespace {

const char* const kScale = "training_cfg_scale";
const char* const kHighest = "training_cfg_scale_max";
const char* const kSchedule = "training_cfg_schedule";
const char* const kZero = "training_cfg_zero";
const char* const kMoved = "training_cfg_loss";
const char* const kClassTarget = "class_target";
const char* const kAwayPrompt = "training_cfg_negative_prompt";

/// The prefix of the values of the prompt that guidance leads away from where that is not the empty one.
const std::string kAway = "away_";
const std::string& away_of(const models::OptionValues& own) { return own.get<std::string>(kAwayPrompt).empty() ? kNegative : kAway; }

bool keeps_class(const models::OptionValues& own) { return own.get<std::string>(kClassTarget) == "model"; }

/// The numbers of a batch's samples that are of the class set; of all where their values are not there.
at::Tensor of_class_set(const pipeline::Scope& scope) {
  const auto& is_kept_B = scope.tensor(kOfClassSet);
  return is_kept_B.is_meta() ? at::arange(is_kept_B.size(0), is_kept_B.options().dtype(at::kLong)) : at::nonzero(is_kept_B).squeeze(1);
}

/// Those samples of a batch of a value, where it has a batch.
pipeline::Value rows_of(pipeline::Value value, const at::Tensor& rows) {
  if (auto* tensor = std::get_if<at::Tensor>(&value)) {
    if (tensor->dim() > 0) *tensor = tensor->index_select(0, rows.to(tensor->device()));
  } else if (auto* lists = std::get_if<pipeline::TensorLists>(&value)) {
    pipeline::TensorLists chosen;
    for (auto row : memory::Numbers({rows}).read()) chosen.push_back(std::move(lists->at(static_cast<size_t>(row))));
    *lists = std::move(chosen);
  }
  return value;
}

/// Runs the unit on such samples; where there are none it is not run, and writes nothing that is read.
void run_on_rows(const pipeline::Unit& unit, const std::set<std::string>& chosen_already, pipeline::Scope& scope) {
  const auto rows = of_class_set(scope);
  for (const auto& model : unit.models) scope.uses(model);
  pipeline::Values values;
  for (const auto& name : unit.reads) values[name] = chosen_already.contains(name) ? scope.value(name) : rows_of(scope.value(name), rows);
  if (rows.numel() > 0) {
    pipeline::Scope own(unit, values);
    unit.run(own);
  }
  for (const auto& name : unit.writes) scope.write(name, rows.numel() > 0 ? std::move(values.at(name)) : at::empty({0}));
}

/// The prediction to be led away from, as long as the target along it.
at::Tensor scaled_away(const at::Tensor& away, const at::Tensor& target) {
  auto away_BN = away.flatten(1), target_BN = target.flatten(1);
  return away * beside((away_BN * target_BN).sum(1) / (away_BN.square().sum(1) + 1e-8), away);
}

}  // namespace

std::vector<models::Option> judged_options() {
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
       .choices = {"prediction", "target"}},
      {.name = kClassTarget,
       .help = "what samples of the class set are compared with: data, their pictures; model, what the model before training predicts",
       .otherwise = std::string("data"),
       .elsewhere = "",
       .choices = {"data", "model"}}};
}

std::vector<OwnCondition> judged_conditions() {
  auto guides = [](const models::OptionValues& own) { return guided_loss_of(own).is_on(); };
  std::vector<OwnCondition> conditions;
  for (const char* name : {kSchedule, kZero, kAwayPrompt, kMoved}) conditions.push_back({name, "training_cfg_scale above 1", guides});
  return conditions;
}

void check_judged(const RunForObjective& run) {
  auto guided = guided_loss_of(run.own);
  if (guided.highest > 0 && guided.highest < guided.scale)
    config_error("train", "{} {} is below {} {}; it is the upper end of the range in which visits draw", kHighest, guided.highest, kScale,
                 guided.scale);
  if (guided.highest > 0 && run.replays) config_error("train", "replay has no scales of guidance; take {} out", kHighest);
  if (keeps_class(run.own) && !run.has_class_set)
    config_error("train", "{} model is about the class set, and there is none; name one in class_metadata_path, or take it out",
                 kClassTarget);
}

std::vector<Input> judged_inputs(const models::OptionValues& own) {
  const auto text = own.get<std::string>(kAwayPrompt);
  return {prompt_input(kAway, [text](const SampleInfo&) { return text; })};
}

GuidedLoss guided_loss_of(const models::OptionValues& own) {
  return {own.get<double>(kScale), own.get<double>(kHighest), own.get<std::string>(kSchedule) == "sigma", own.get<bool>(kZero),
          own.get<std::string>(kMoved) == "target"};
}

at::Tensor training_scales(const GuidedLoss& loss, const at::Tensor& drawn_B, const std::vector<double>& shares) {
  std::vector<double> scales;
  for (size_t i = 0; i < shares.size(); ++i) {
    auto scale = drawn_B.defined() ? static_cast<double>(drawn_B.const_data_ptr<float>()[i]) : loss.scale;
    scales.push_back(loss.by_time ? 1 + (scale - 1) * shares[i] : scale);
  }
  return at::tensor(scales, at::TensorOptions().dtype(at::kFloat));
}

std::vector<Pass> judged_passes(const models::OptionValues& own) {
  std::vector<Pass> passes;
  if (guided_loss_of(own).is_on()) passes.push_back({.prompt = away_of(own), .has_gradient = false});
  if (keeps_class(own)) passes.push_back({.before_training = true});
  return passes;
}

pipeline::Units run_for_class_set(pipeline::Units units) {
  std::set<std::string> chosen;
  for (auto& unit : units) {
    if (unit.prefix != kReference) continue;
    unit.run = [plain = unit, chosen](pipeline::Scope& scope) { run_on_rows(plain, chosen, scope); };
    unit.reads.emplace_back(kOfClassSet);
    chosen.insert(unit.writes.begin(), unit.writes.end());
  }
  return units;
}

pipeline::Unit judged_unit(models::Model& model, const models::OptionValues& own, bool class_set_alone) {
  const auto& streams = model.latent_space().streams;
  const auto guided = guided_loss_of(own);
  const auto passes = judged_passes(own);
  const bool keeps = keeps_class(own);
  const auto led_away = away_of(own);
  pipeline::Unit unit{"judge", {}, {}, {}, {}};
  for (const auto& stream : streams) {
    for (const char* name : {"prediction", "target"}) {
      unit.reads.push_back(stream.value(name));
      unit.writes.push_back(kJudged + stream.value(name));
    }
    for (const auto& pass : passes) unit.reads.push_back(pass.prefix() + stream.value("prediction"));
  }
  if (guided.is_on()) unit.reads.emplace_back(kTrainingScale);
  if (keeps) unit.reads.emplace_back(kOfClassSet);
  unit.run = [=, &streams](pipeline::Scope& s) {
    for (const auto& stream : streams) {
      const auto& plain = s.tensor(stream.value("prediction"));
      auto prediction = plain, target = s.tensor(stream.value("target"));
      if (guided.is_on() && plain.numel() > 0) {
        auto away = s.tensor(led_away + stream.value("prediction")).detach().to(at::kFloat);
        auto scale = beside(s.tensor(kTrainingScale), plain);
        if (guided.scales_away) away = scaled_away(away, target);
        if (guided.moves_target) target = away + scale * (target - away);
        else prediction = (plain.to(at::kFloat) + (scale - 1) * away) / scale;
      }
      if (keeps) {
        auto is_kept = beside(s.tensor(kOfClassSet), plain) > 0;
        prediction = at::where(is_kept, plain.to(at::kFloat), prediction.to(at::kFloat));
        const auto& reference = s.tensor(kReference + stream.value("prediction"));
        if (!class_set_alone) target = at::where(is_kept, reference.to(at::kFloat), target.to(at::kFloat));
        else if (reference.numel() > 0) target = target.to(at::kFloat).index_copy(0, of_class_set(s), reference.to(at::kFloat));
      }
      s.write(kJudged + stream.value("prediction"), prediction);
      s.write(kJudged + stream.value("target"), target);
    }
  };
  return unit;
}

}  // namespace burnish::train
