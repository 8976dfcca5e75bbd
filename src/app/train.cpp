#include <fmt/core.h>

#include "app/verbs.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "train/run.h"

namespace burnish::app {

void train(const Arguments& arguments) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  auto parsed = config::read_command_line("train", "fine-tune a diffusion model (a LoRA, or all of it)", arguments, fields);
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (!parsed.without_effect.empty()) info("without effect here: {}", join(parsed.without_effect));
  watch_for_interrupt();
  train::Run run(options);
  run.open_files();
  run.check_model();
  run.open_data();
  run.check_run();
  run.prepare_data();
  run.load_denoiser();
  run.make_optimizer();
  run.train();
}

}  // namespace burnish::app
