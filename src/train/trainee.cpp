#include "train/trainee.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "memory/heap.h"
#include "memory/recompute.h"

namespace burnish::train {

namespace {

/// Of a component, the parts that units run; everything else of it stays on disk.
void load_component(models::Model& model, const std::string& component, const std::vector<std::string>& run) {
  std::vector<std::string> parts;
  std::copy_if(run.begin(), run.end(), std::back_inserter(parts), [&](const auto& m) { return pipeline::component_of(m) == component; });
  model.components().load(pipeline::common_part(parts));
  info("in memory while training: {}, {}", join(parts), human_bytes(static_cast<double>(model.components().module(component).num_bytes())));
}

void load_models(models::Model& model, const pipeline::Units& live, const std::shared_ptr<nn::BlockRunner>& runner) {
  auto run = pipeline::models_of(live);
  for (const auto& component : pipeline::components_of(live)) {
    load_component(model, component, run);
    if (!runner) continue;
    for (auto* block : model.components().blocks(component)) block->runner = runner;
  }
}

std::unique_ptr<optim::Optimizer> optimizer_of(const StepSettings& settings, optim::ParameterList parameters) {
  int64_t count = 0;
  for (const auto& p : parameters) count += p.value.numel();
  info("{:.2f} million trained parameters", static_cast<double>(count) / 1e6);
  optim::apply_groups(parameters, settings.groups, settings.learning_rate);
  return optim::make_optimizer(settings.optimizer, std::move(parameters));
}

}  // namespace

Trainee load_trainee(Subject& subject, const pipeline::Schedule& schedule, const Settings& settings, const std::string& fingerprint) {
  Trainee trainee{.model = *subject.model, .live = schedule.live, .device = settings.model.options.device, .place = {}};
  load_models(*subject.model, schedule.live.units, settings.step.recomputes ? memory::recompute() : nullptr);
  if (subject.trained.has_adapters()) {
    adapters::Dropout dropout{.probability = settings.trained.adapter.dropout, .seed = settings.trained.seed};
    trainee.dropout = std::make_shared<adapters::Dropout>(dropout);
  }
  subject.trained.start(trainee.dropout);
  memory::trim_heap();

  trainee.optimizer = optimizer_of(settings.step, subject.trained.parameters());
  if (settings.step.ema_decay > 0) trainee.ema = std::make_unique<optim::Ema>(trainee.optimizer->parameters());
  trainee.progress.fingerprint = fingerprint;
  if (settings.step.scales_loss) trainee.progress.loss_scale = optim::LossScale::for_fp16();
  if (settings.output.resume) {
    trainee.progress = checkpoint::load_state(settings.output.state(), {*trainee.optimizer, trainee.ema.get()}, fingerprint);
    trainee.saved_step = trainee.progress.step;
    info("resumed at step {}", trainee.progress.step);
  }
  return trainee;
}

}  // namespace burnish::train
