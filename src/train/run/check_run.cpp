#include "train/run/check_run.h"

#include "train/course/course.h"
#include "train/options/run_folder.h"
#include "train/options/settings.h"
#include "train/plan/rehearsal.h"
#include "train/run/opened.h"
#include "train/run/previews.h"
#include "train/step/step_options.h"

namespace burnish::train {

void check_run(const TrainOptions& options) {
  const auto settings = settle(options);
  check_previews_apart(settings);
  const auto run = open_run(on_meta(settings));
  const Course course(run.settings.course, run.subject.model->process(), *run.objective, run.samples(),
                      run.held_out ? &*run.held_out : nullptr, run.subject.model->names().references.given_shares);
  optim::check(schedule_of(run.settings.step, course.num_steps()));
  course.check();
  read_previews(run.settings.output.previews, *run.subject, run.samples().list.front().extent, run.settings.model.options.device);
}

}  // namespace burnish::train
