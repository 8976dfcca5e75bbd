#include "app/first_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "config/command_line.h"
#include "train/options/fields.h"
#include "train/run/run.h"

namespace burnish::app {

namespace {

constexpr int64_t kRank = 16;
constexpr double kRate = 1e-4;
/// Smaller pictures would be rounded to no size at all by buckets, whose sides are multiples of 64.
constexpr int64_t kLeastBucketSide = 256;

/// 1000 steps for ten pictures and 2000 for thirty, as docs/first-lora.md says of them.
int64_t steps_for(int64_t num_pictures) { return std::clamp<int64_t>((500 + 50 * num_pictures) / 100 * 100, 600, 4000); }

bool has_buckets(const SeenPictures& pictures) { return std::min(pictures.smallest.height, pictures.smallest.width) >= kLeastBucketSide; }

/// Tells whether the words have anything to do: as the caption of pictures that have none, or before captions that do not say them.
bool needs_trigger(const FirstRunAnswers& answers) {
  return answers.pictures.num_without_caption > 0 || answers.pictures.num_without(answers.subject) > 0;
}

void set_side(int64_t side, const SeenPictures& pictures, train::DatasetChoice& dataset) {
  dataset.enable_bucket = has_buckets(pictures);
  if (dataset.enable_bucket) dataset.resolution = {std::to_string(side)};
  else dataset.subset.size.max_pixels = side * side;
}

/// The options of a run before anything is done to make it fit.
train::TrainOptions options_of(const FirstRunAnswers& answers, int64_t side) {
  train::TrainOptions o;
  o.model.model = answers.model.sizes;
  o.model.tokenizer_path = answers.tokenizer_path;
  o.model.tokenizer_2_path = answers.tokenizer_2_path;
  o.model.is_plan = true;
  if (answers.memory == "cpu") o.model.device = "cpu";
  else if (!answers.memory.empty()) o.model.device = "cuda", o.plan.device_memory = answers.memory;
  o.data.metadata_path = answers.pictures.path;
  if (answers.pictures.num_bad > 0) o.data.on_bad_sample = "skip";
  if (needs_trigger(answers)) o.dataset.subset.visits.trigger_word = answers.subject;
  set_side(side, answers.pictures, o.dataset);
  o.adapter.rank = kRank;
  o.step.learning_rate = kRate;
  o.course.max_steps = steps_for(answers.pictures.num_pictures);
  o.cache.path = "cache";
  return o;
}

/// Gives the options what an advice says behind a command; the names of what it says.
std::vector<std::string> take_flags(const std::string& flags, train::TrainOptions& options) {
  config::Fields fields;
  train::fields(fields, options);
  return config::read_command_line("new", "", split_list(flags, ' '), fields).given;
}

std::string in_units(int64_t num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

std::optional<FirstRun> planned_at(const FirstRunAnswers& answers, int64_t side) {
  FirstRun run{.options = options_of(answers, side)};
  const auto advice =
      train::advise(train::shared_out(train::understood(train::with_format(run.options)), {}), {.changes = false, .fit = true});
  auto change = train::Change{"", advice.plan.num_bytes(), advice.plan.host_bytes()};
  if (!train::fits(advice.plan, advice.limits)) {
    const auto& found = advice.fitting ? advice.fitting : advice.training_less;
    if (!found) return std::nullopt;
    change = *found;
    run.planned = take_flags(change.flags, run.options);
  }
  const bool on_cpu = advice.plan.device == "cpu";
  run.takes = on_cpu ? fmt::format("{} of main memory", in_units(std::max(change.num_bytes, change.host_bytes)))
                     : fmt::format("{} of the card and {} of main memory", in_units(change.num_bytes), in_units(change.host_bytes));
  return run;
}

}  // namespace

void check_subject(const std::string& subject, const SeenPictures& pictures) {
  if (subject.starts_with('#') || subject.starts_with("--") || subject.find(" --") != subject.npos || one_line(subject) != subject)
    config_error("new", "the words for the subject are one line that begins with no '#' and holds no option; 'sks dog' say, not '{}'",
                 subject);
  if (subject.empty() && pictures.num_without_caption > 0)
    config_error("new", "{} no caption, for which words for the subject would stand; say what is to be learned, 'sks dog' for example",
                 count_of(pictures.num_without_caption, "picture has", "pictures have"));
}

std::string parse_memory(const char* verb, const std::string& text) {
  if (text.empty() || text == "cpu") return text;
  const bool is_bare = text.find_first_not_of("0123456789.") == text.npos;
  const auto size = is_bare ? text + "GB" : text;
  parse_size(verb, "memory", size);
  return size;
}

std::string flags_for(const std::string& memory) {
  if (memory.empty()) return "";
  return memory == "cpu" ? " --device cpu" : " --device cuda --device_memory " + memory;
}

FirstRun plan_first_run(const FirstRunAnswers& answers) {
  const auto side = answers.model.drawn.side;
  for (auto smaller : {side, side * 3 / 4, side / 2}) {
    if (auto run = planned_at(answers, smaller)) return *run;
  }
  throw Error(Exit::no_fit, "new",
              fmt::format("a LoRA on {} does not fit, not even with pictures of {}x{} pixels; choose a smaller model (`burnish doctor{}` "
                          "lists what fits), or a card with more memory than {}",
                          answers.model.title, side / 2, side / 2, answers.memory.empty() ? "" : " --memory " + answers.memory,
                          answers.memory.empty() ? "this one" : answers.memory));
}

}  // namespace burnish::app
