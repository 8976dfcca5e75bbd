#include "app/run_options.h"

#include "base/input_error.h"
#include "config/fields.h"
#include "io/files.h"
#include "train/options/fields.h"

namespace burnish::app {

train::TrainOptions run_options(const char* verb, const std::filesystem::path& run) {
  const auto config = run / "config.toml";
  if (!io::is_there(config)) data_error(verb, "{} is no folder of a training run: it holds no config.toml", run.string());
  train::TrainOptions trained;
  config::Fields fields;
  train::fields(fields, trained);
  config::read_toml(config.string(), fields);
  return trained;
}

}  // namespace burnish::app
