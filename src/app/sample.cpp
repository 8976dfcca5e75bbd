#include "train/sample.h"

#include <fmt/core.h>

#include "app/verbs.h"
#include "base/interrupt.h"

namespace burnish::app {

void sample(const Arguments& arguments) {
  train::SampleOptions options;
  options.model.embedded_guidance = 3.5;
  config::Fields fields;
  train::fields(fields, options);
  auto parsed = config::read_command_line("sample", "draw pictures, with or without LoRAs", arguments, fields);
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  watch_for_interrupt();
  train::sample(options);
}

}  // namespace burnish::app
