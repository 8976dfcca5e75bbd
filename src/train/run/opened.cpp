#include "train/run/opened.h"

#include "checkpoint/state.h"
#include "train/plan/stages.h"
#include "train/subject/experts_meant.h"

namespace burnish::train {

Opened open_run(Settings settings) {
  auto subject = open_subject(settings.model, settings.trained);
  say_held(subject, settings.model);
  for (auto* numbers : {&settings.step.groups.lr_groups, &settings.step.groups.weight_decay_groups})
    *numbers = numbers_meant_by(*numbers, *subject, subject.chosen.experts);
  subject.chosen.check_groups(*subject, settings.step.groups);
  auto objective = make_objective(settings.objective, subject);
  auto schedule = plan_schedule(settings, subject, *objective);
  if (settings.output.resume && !settings.makes_cache) checkpoint::check_there(settings.output.state());
  bool is_plan = settings.model.options.device.is_meta() && settings.data.from_pictures;
  auto cache = is_plan ? std::make_unique<data::Cache>("") : open_cache(settings.data);  // a plan leaves no folder behind
  auto listed = open_samples(settings.data, *subject, objective->needs(), schedule, *cache);
  auto held_out = open_held_out(settings.data, *subject, objective->needs());
  return {std::move(settings), std::move(subject), std::move(objective), std::move(schedule),
          std::move(cache),    std::move(listed),  std::move(held_out)};
}

}  // namespace burnish::train
