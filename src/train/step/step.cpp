#include "train/step/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "base/input_error.h"
#include "optim/in_backward.h"
#include "pipeline/twins.h"

namespace burnish::train {

namespace {

/// Has adapters drop inputs and places share tokens out for as long as it lives, where there are such.
class DuringGradients {
 public:
  explicit DuringGradients(const Trainee& trainee)
      : flags_{trainee.attached->dropout() ? &trainee.attached->dropout()->active : nullptr,
               trainee.execution.token_shares ? &trainee.execution.token_shares->is_on : nullptr} {
    set(true);
  }
  ~DuringGradients() { set(false); }
  DuringGradients(const DuringGradients&) = delete;
  DuringGradients& operator=(const DuringGradients&) = delete;

 private:
  void set(bool value) const {
    for (auto* flag : flags_) {
      if (flag != nullptr) *flag = value;
    }
  }
  std::array<bool*, 2> flags_;
};

Batch moved(Batch batch, memory::Upload& upload) {
  auto begin = [&](const at::Tensor& tensor) { return upload.begin(tensor); };
  for (auto& sample : batch.samples) sample = pipeline::moved(std::move(sample), begin);
  batch.draws = pipeline::moved(std::move(batch.draws), begin);
  upload.wait();
  return in_model_range(std::move(batch));
}

pipeline::Values run_live(const Trainee& trainee, Batch& there) {
  return pipeline::run(trainee.live, std::move(there.samples), there.draws);
}

/// The stage without what leads to none of these values.
pipeline::Stage leading_to(pipeline::Stage stage, std::set<std::string> values) {
  stage.batch = pipeline::leading_to(stage.batch, values);
  for (const auto& unit : stage.batch) values.insert(unit.reads.begin(), unit.reads.end());
  std::erase_if(stage.joined, [&](const auto& name) { return !values.contains(name); });
  stage.each = pipeline::leading_to(stage.each, values);
  return stage;
}

const at::Tensor& tensor_of(const pipeline::Values& values, const std::string& name) { return std::get<at::Tensor>(values.at(name)); }

void add_to(at::Tensor& sum, const at::Tensor& value) { sum = sum.defined() ? sum + value : value; }

/// Returns what is counted of a part of a batch; its samples' losses and what is logged are put behind `results`. Its values are gone
/// before backward begins.
at::Tensor loss_of(const Trainee& trainee, const Objective& objective, Batch there, std::vector<at::Tensor>& results) {
  auto share = there.part.share;
  auto values = run_live(trainee, there);
  auto loss_B = tensor_of(values, "loss");
  if (!loss_B.requires_grad())
    config_error("train",
                 "the loss depends on nothing that trains: no trained layer is run by this model's units; name others in "
                 "lora_target_modules or trainable_models");
  results.push_back(loss_B.detach());
  for (const auto& name : objective.logged()) results.push_back(tensor_of(values, name).detach().to(at::kDouble).mean() * share);
  return objective.reduce(values, there.draws) * share;
}

}  // namespace

namespace {

/// Has adapters drop nothing for as long as it lives.
class OutsideGradients {
 public:
  explicit OutsideGradients(const Trainee& trainee)
      : dropout_(trainee.attached->dropout().get()), was_active_(dropout_ != nullptr && dropout_->active) {
    if (dropout_ != nullptr) dropout_->active = false;
  }
  ~OutsideGradients() {
    if (dropout_ != nullptr) dropout_->active = was_active_;
  }
  OutsideGradients(const OutsideGradients&) = delete;
  OutsideGradients& operator=(const OutsideGradients&) = delete;

 private:
  adapters::Dropout* dropout_;
  bool was_active_;
};

}  // namespace

pipeline::Values values_of(const Trainee& trainee, Batch batch, const std::set<std::string>& names) {
  at::NoGradGuard no_grad;
  const OutsideGradients outside(trainee);
  auto there = moved(std::move(batch), *trainee.execution.upload);
  return pipeline::run(leading_to(trainee.live, names), std::move(there.samples), there.draws);
}

at::Tensor losses_of(const Trainee& trainee, Batch batch) {
  auto there = moved(std::move(batch), *trainee.execution.upload);
  return tensor_of(pipeline::run(leading_to(trainee.live, {"loss"}), std::move(there.samples), there.draws), "loss");
}

namespace {

/// Runs a part of one of `num_batches` batches forward and backward. Its loss in fp64, its samples' losses, and what is logged of it.
std::vector<at::Tensor> run_part(Trainee& trainee, const Objective& objective, Batch there, int64_t num_batches) {
  const auto& scale = trainee.progress.loss_scale;
  std::vector<at::Tensor> results(1);
  trainee.place = kForward;
  auto loss = loss_of(trainee, objective, std::move(there), results) / static_cast<double>(num_batches);
  trainee.place = kBackward;
  torch::autograd::backward({scale.in_use() ? loss * scale.factor : loss}, {});
  results[0] = loss.detach().to(at::kDouble);
  return results;
}

/// The same where steps are recorded. Gradients are added to in their places.
std::vector<at::Tensor> replay_part(Trainee& trainee, const Objective& objective, Batch there, int64_t num_batches) {
  auto& gradients = *trainee.execution.gradients;
  auto constants = fmt::format("{} {} {}", there.part.share, num_batches, trainee.progress.loss_scale.factor);
  auto results = trainee.execution.replays->run(constants, std::move(there), [&trainee, &objective, &gradients, num_batches](Batch part) {
    const auto before = gradients.num_came;
    auto all = run_part(trainee, objective, std::move(part), num_batches);
    // A recording's results say once and for all whose gradients come.
    for (size_t i = 0; i < before.size(); ++i) {
      bool came = gradients.num_came[i] > before[i];
      all.push_back(came ? trainee.optimizer->parameters()[i].value.grad() : at::Tensor());
    }
    return all;
  });
  const auto num_results = results.size() - gradients.num_came.size();
  for (size_t i = 0; i < gradients.num_came.size(); ++i) gradients.num_came[i] += results[num_results + i].defined() ? 1 : 0;
  results.resize(num_results);
  for (auto& tensor : results) tensor = tensor.clone();
  return results;
}

/// The shares of noise of a part's samples; of a rehearsal, whose times are not there, as many different ones.
std::vector<double> shares_of_noise(const Objective& objective, const Batch& batch) {
  std::vector<double> shares;
  if (tensor_of(batch.draws, kLossWeight).is_meta()) {
    const auto count = std::ssize(batch.samples);
    for (int64_t i = 0; i < count; ++i) shares.push_back(static_cast<double>(i) / static_cast<double>(count));
    return shares;
  }
  for (const auto& sample : objective.counted(batch.draws)) shares.push_back(sample.share);
  return shares;
}

void zero_gradients(Trainee& trainee) {
  if (trainee.execution.gradients) trainee.execution.gradients->begin();
  else trainee.optimizer->zero_grad();
}

/// Adds what comes of a part of batch `number` of `num_batches`.
void add_part(Trainee& trainee, const Objective& objective, Batch batch, int64_t number, int64_t num_batches, Gradients& result) {
  const bool counts = batch.part.counts;
  if (counts) result.num_samples += std::ssize(batch.samples);
  trainee.place = kForward;
  if (trainee.attached->dropout()) {
    trainee.attached->dropout()->draw = static_cast<uint64_t>(trainee.progress.batch + number);
    trainee.attached->dropout()->first = static_cast<uint64_t>(batch.part.first);
  }
  std::optional<adapters::RankMask> mask;
  if (const auto& rule = trainee.attached->rank_rule(); rule.is_on()) mask.emplace(rule, shares_of_noise(objective, batch));
  auto there = moved(std::move(batch), *trainee.execution.upload);
  auto results = trainee.execution.replays ? replay_part(trainee, objective, std::move(there), num_batches)
                                           : run_part(trainee, objective, std::move(there), num_batches);
  add_to(result.loss, results[0]);
  if (counts) result.losses_B.push_back(results[1]);
  size_t next = 2;
  for (const auto& name : objective.logged()) add_to(result.logged[name], results[next++]);
}

void advance(Trainee& trainee, const StepSettings& settings, int64_t num_batches) {
  trainee.attached->updated();
  auto& progress = trainee.progress;
  progress.loss_scale.succeeded();
  progress.batch += num_batches;
  ++progress.step;
  if (trainee.ema) trainee.ema->update(optim::ema_decay(settings.ema_decay, progress.step));
  trainee.place = kAfterStep;
}

/// Of all gradients, wherever they are.
at::Tensor norm_of(const Trainee& trainee) {
  const auto& parameters = trainee.optimizer->parameters();
  bool is_divided = trainee.ownership && trainee.ownership->divides_gradients();
  return is_divided ? trainee.ownership->gradient_norm(parameters) : optim::gradient_norm(parameters);
}

/// The kind of the step that a batch is of.
int64_t phase_of(const Batch& batch) {
  const auto phase = batch.draws.find(kPhase);
  return phase == batch.draws.end() ? 0 : std::get<at::Tensor>(phase->second).item<int64_t>();
}

}  // namespace

Gradients compute_gradients(Trainee& trainee, const Objective& objective, int64_t num_batches, const std::function<Batch()>& next) {
  Gradients result;
  const auto& scale = trainee.progress.loss_scale;
  zero_gradients(trainee);
  DuringGradients flags(trainee);
  trainee.place = kForward;
  for (int64_t i = 0; i < num_batches; ++i) {
    for (bool is_last = false; !is_last;) {
      auto batch = next();
      is_last = batch.part.is_last;
      if (trainee.reduction) trainee.reduction->begin(is_last && i + 1 == num_batches, phase_of(batch));
      add_part(trainee, objective, std::move(batch), i, num_batches, result);
      if (trainee.reduction) trainee.reduction->ran(is_last);
    }
  }
  if (trainee.reduction) trainee.reduction->finish();
  if (trainee.execution.gradients) trainee.execution.gradients->finish();
  for (auto& [name, sum] : result.logged) sum /= static_cast<double>(num_batches);
  if (scale.in_use()) optim::scale_gradients(trainee.optimizer->parameters(), 1 / scale.factor);
  result.norm = norm_of(trainee);
  return result;
}

Gradients update_in_backward(Trainee& trainee, const Objective& objective, Batch batch, const StepSettings& settings,
                             double learning_rate) {
  Gradients result;
  trainee.optimizer->zero_grad();
  {
    DuringGradients flags(trainee);
    optim::InBackward step(*trainee.optimizer, learning_rate, settings.max_grad_norm);
    add_part(trainee, objective, std::move(batch), 0, 1, result);
    result.norm = step.finish();
  }
  advance(trainee, settings, 1);
  return result;
}

void update(Trainee& trainee, const Gradients& gradients, const StepSettings& settings, double learning_rate, int64_t num_batches) {
  trainee.place = kOptimizerStep;
  optim::clip_gradients(trainee.optimizer->parameters(), gradients.norm, settings.max_grad_norm);
  trainee.optimizer->step(learning_rate);
  if (trainee.ownership) trainee.ownership->share(trainee.optimizer->parameters());
  advance(trainee, settings, num_batches);
}

}  // namespace burnish::train
