#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "app/compared_captions.h"
#include "app/compared_gradients.h"
#include "app/cuts_json.h"
#include "app/json_refusal.h"
#include "app/learned_samples.h"
#include "app/survey_text.h"
#include "app/verbs.h"
#include "base/count.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/limits.h"
#include "base/say.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "config/everyday_words.h"
#include "config/pages.h"
#include "data/mask_check.h"
#include "data/survey.h"
#include "models/model/columns.h"
#include "models/parts/shared_units.h"
#include "models/registry.h"
#include "report/contact_sheet.h"
#include "train/options/fields.h"
#include "train/options/settings.h"
#include "train/samples/dataset_choice.h"
#include "train/samples/open_samples.h"

namespace burnish::app {

namespace {

constexpr int64_t kMostFramesStep = 64;
constexpr double kUsualRate = 16;  // of clips, in frames a second
constexpr const char* kAnyCaption = "-";

struct DataOptions {
  std::vector<std::string> data;
  std::string settings, dataset_config, data_file_keys = "image,video", masked_loss = "none", mask_column = "mask";
  train::DatasetChoice dataset;
  train::ModelChoice model;
  int64_t batch_size = 1, division = 16, clip_step = 0;
  bool json = false;
  std::string contact_sheet;
  int64_t num_pictures = 30;
  std::string from_run;
  int64_t num_samples = 20;
  int64_t compare_captions = 0;
  bool compare_gradients = false;
};

/// Reads the options of the run that `settings` names, with the dataset that is named here in place of its own.
train::TrainOptions run_of_settings(const DataOptions& o) {
  train::TrainOptions run;
  config::Fields listed;
  train::fields(listed, run);
  config::read_toml(o.settings, listed);
  if (!o.data.empty()) {
    run.data.base_path = o.data[0];
    run.data.metadata_path = run.data.config = run.data.class_metadata_path = run.data.class_base_path = "";
  }
  return run;
}

/// Datasets as a run of these settings has them, or what is named here in their place. The options that are looked at later become the
/// run's.
data::DatasetOptions of_settings(DataOptions& o) {
  auto run = run_of_settings(o);
  run.model.is_plan = true;
  o.masked_loss = run.masks.from;
  o.mask_column = run.masks.column;
  o.batch_size = run.course.batch_size;
  const auto settings = train::understood(run);
  if (!settings.data.from_pictures) config_error("data", "{} trains from a cache, whose pictures were cut when it was made", o.settings);
  const auto model = models::open_model(models::open_model_files(settings.model.names), settings.model.options);
  auto options = settings.data.pictures;
  options.columns.insert(options.columns.begin(), models::target_of(model->latent_space()));
  for (auto& subset : options.subsets) data::fit(subset, target_of(options.columns));
  return options;
}

/// What a model would make that takes such pictures, or clips.
Column target_meant(const DataOptions& o) {
  const bool of_clips = o.clip_step > 0;
  return {.name = kTarget,
          .is = of_clips ? Column::Is::clip : Column::Is::picture,
          .fit = Column::Fit::target,
          .side = o.division,
          .frames = {.step = o.clip_step, .rate = kUsualRate}};
}

/// Datasets as the options of this verb say.
data::DatasetOptions of_options(const DataOptions& o) {
  if (o.data.empty() == o.dataset_config.empty())
    config_error("data", "name a folder of pictures or a metadata file, for example: burnish data photos; or a --dataset_config");
  train::check(o.dataset);
  std::vector<train::DatasetChoice> datasets;
  if (!o.dataset_config.empty()) datasets = train::read_dataset_config(o.dataset_config, o.dataset);
  for (const auto& path : o.data) {
    datasets.push_back(o.dataset);
    datasets.back().subset.metadata_path = path;
  }
  data::DatasetOptions options{.data_file_keys = o.data_file_keys};
  options.columns = {target_meant(o)};
  train::add_masks(options.columns, o.masked_loss, o.mask_column);
  for (const auto& dataset : datasets) {
    for (auto& subset : train::subsets_of(dataset, 1)) {
      data::fit(subset, target_of(options.columns));
      options.subsets.push_back(std::move(subset));
    }
  }
  return options;
}

data::Dataset open(DataOptions& o) {
  auto options = o.settings.empty() ? of_options(o) : of_settings(o);
  options.skip_bad_samples = true;
  if (o.masked_loss == "none")
    options.columns.push_back({.name = o.mask_column, .is = Column::Is::text});  // looked at, and not asked to be right
  if (!o.json) return data::Dataset(options);
  // How pictures are cut follows from their sizes, whatever stands in their captions and masks.
  options.only_headers = true;
  std::erase_if(options.columns, [&](const auto& column) { return column.name == o.mask_column || column.is == Column::Is::opacity; });
  for (auto& subset : options.subsets) subset.caption_files.trigger_word = kAnyCaption;
  return data::Dataset(options);
}

void print_sizes(const data::Survey& survey, const data::Dataset& dataset) {
  print("{}\n", text_of_sizes(survey, dataset));
  print("{:<12} {:>9} {:>9} {:>9} {:>11}\n", "size", "samples", "visits", "batches", "in a batch");
  for (const auto& b : survey.buckets) {
    print("{:<12} {:>9} {:>9} {:>9} {:>11.2f}\n", text_of(b.extent), b.rows.size(), b.num_visits, b.num_batches,
          b.num_batches > 0 ? static_cast<double>(b.num_visits) / static_cast<double>(b.num_batches) : 0.0);
  }
}

void print_captions(const data::CaptionCounts& captions) {
  print("\n{}, {} different, {} empty; {} in the median, {} at most\n", count_of(captions.num_captions, "caption"), captions.num_different,
        captions.num_empty, count_of(captions.median_words, "word"), captions.most_words);
  print("most frequent tags:\n");
  for (const auto& [tag, count] : captions.tags) print("{:>7}  {}\n", count, tag);
}

/// Prints the tokens of captions, for every text encoder of the model.
void print_tokens(const train::ModelChoice& choice, const data::Dataset& dataset) {
  auto model = models::open_model(models::open_model_files({choice.model, "", ""}), train::model_options(choice));
  std::set<std::string> captions;
  for (auto row : dataset.rows()) {
    for (const auto& caption : dataset.row(row).captions) captions.insert(caption.text);
  }
  print("\n");
  for (const auto& count : models::count_tokens(model->components(), model->units().encode_prompt, {captions.begin(), captions.end()}))
    print("the longest caption has {} tokens for {}, which reads {}; {} cut\n", count.longest, count.encoder, count.limit,
          count_of(count.num_cut, "caption is", "captions are"));
}

/// Prints which samples would be visited for nothing.
void print_without_effect(const DataOptions& o, const data::Dataset& dataset) {
  auto num_zero = std::ranges::count_if(dataset.rows(), [&](auto row) { return dataset.row(row).loss_weight == 0; });
  if (num_zero > 0)
    print("\nwarning: {} a loss_weight of 0, so nothing is learned of it\n", count_of(num_zero, "sample has", "samples have"));
  const auto* masks = mask_of(dataset.options().columns);
  for (const auto& line : data::warnings_of_masks(dataset, masks != nullptr ? *masks : mask_column(o.mask_column)))
    print("\nwarning: {}\n", line);
}

void fields(config::Fields& f, DataOptions& o) {
  f.group("Data");
  f.positional("data", o.data, "folders of pictures with captions, or metadata files");
  f.path("dataset_config", o.dataset_config, "TOML file of several datasets, in their place");
  f.path(
      "settings", o.settings,
      "settings of a run: its datasets, or the one that is named here, with its sizes and captions, as its model takes them; the options "
      "below then say nothing");
  f("data_file_keys", o.data_file_keys, "columns that hold files");
  train::fields(f, o.dataset);
  f.group("What is looked at and written");
  f("masked_loss", o.masked_loss, "where masks are that a run is to read: column, alpha, or none, where those of mask_column are looked at")
      .one_of({"none", "column", "alpha"});
  f("mask_column", o.mask_column, "column that names masks");
  f("division", o.division, "sides are multiples of this, as the model takes them: 16 or 8, say").at_least(1).at_most(kMostPixelsASide);
  f("frames_step", o.clip_step,
    "look at clips too, of 1 + a multiple of so many frames, as the model takes them, 4 say; 0 looks at pictures alone")
      .at_least(0)
      .at_most(kMostFramesStep);
  f("batch_size", o.batch_size, "samples of equal size in a batch").at_least(1).at_most(kMostInABatch).called(config::kBatch);
  f("json", o.json,
    "print as JSON for what size each picture is cut, and where, and nothing else: of pictures headers are read, and captions may be "
    "missing");
  f.group("Model");
  f.path("model", o.model.model, "as for burnish train: counts the tokens that its text encoders make of the captions", {},
         config::seen_from_if_there)
      .called(config::kModel);
  f.path("tokenizer_path", o.model.tokenizer_path,
         "tokenizer folder (CLIP, Qwen), or author/model:tokenizer/, when it is not beside the model", {}, config::seen_from_if_there);
  f.path("tokenizer_2_path", o.model.tokenizer_2_path, "folder of the second tokenizer (T5), when it is not beside the model");
  f("compare_captions", o.compare_captions,
    "how many captions of other samples each caption is compared with, 4 say, by the model of `settings` before it trains: names pictures "
    "of which their own caption says little, and nothing else; with json of each sample")
      .at_least(0)
      .at_most(train::kMostComparedCaptions)
      .counts_when("settings", [&] { return !o.settings.empty(); });
  f("compare_gradients", o.compare_gradients,
    "compare what each picture would teach an adapter with what the others would, by the model of `settings` before it trains: names "
    "pictures that pull elsewhere, and nothing else; with json of each sample")
      .counts_when("settings", [&] { return !o.settings.empty(); });
  f.group("Contact sheet");
  f.path("contact_sheet", o.contact_sheet, "HTML file to write: the pictures by size, as they are cut for training");
  f("num_pictures", o.num_pictures, "of each size on it, at most").at_least(0);
  f.group("A run");
  f.path("from_run", o.from_run,
         "folder of a run that trained: says which of its samples were learned badly and which are known by heart, and nothing else; with "
         "json of each sample");
  f("num_samples", o.num_samples, "of each kind that are named, at most").at_least(0);
  for (const char* name : {"data", "settings", "resolution", "enable_bucket", "caption_extension", "trigger_word", "batch_size", "model",
                           "contact_sheet", "json", "from_run"})
    f.row(name).level(config::Level::first_run);
}

void run(const Arguments& arguments, DataOptions& o) {
  config::Fields f;
  fields(f, o);
  auto parsed = config::read_command_line("data", "look at a dataset before training", arguments, f);
  if (parsed.help) return print("{}", parsed.help_text);
  if (!o.from_run.empty()) return print("{}", o.json ? json_of_learned(o.from_run) : text_of_learned(o.from_run, o.num_samples));
  watch_for_interrupt("interrupted: ends after this picture");
  if (o.compare_captions > 0) {
    if (o.settings.empty()) config_error("data", "captions are compared by the model of a run; name its settings with --settings run.toml");
    const auto compared = train::compare_captions(run_of_settings(o), o.compare_captions);
    return print("{}", o.json ? json_of(compared) : text_of(compared, o.num_samples));
  }
  if (o.compare_gradients) {
    if (o.settings.empty()) config_error("data", "pictures are compared by the model of a run; name its settings with --settings run.toml");
    const auto compared = train::compare_gradients(run_of_settings(o));
    return print("{}", o.json ? json_of(compared) : text_of(compared, o.num_samples));
  }
  start_threads();
  const auto dataset = open(o);
  if (o.json) return print("{}\n", cuts_as_json(dataset));
  auto survey = data::survey(dataset, o.batch_size);
  print_sizes(survey, dataset);
  print_captions(survey.captions);
  print("{}", text_of_clips(survey));
  if (!o.model.model.empty()) print_tokens(o.model, dataset);
  print("{}", text_of_problems(survey, dataset));
  print_without_effect(o, dataset);
  if (o.contact_sheet.empty()) return;
  report::write_contact_sheet(o.contact_sheet, dataset, survey, o.num_pictures);
  print("\n{}\n", o.contact_sheet);
}

}  // namespace

void data(const Arguments& arguments) {
  DataOptions options;
  refusing_in_json([&] { return options.json; }, [&] { run(arguments, options); });
}

}  // namespace burnish::app
