#include "train/run/compared_captions.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/median.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/threads.h"
#include "train/course/ahead.h"
#include "train/run/encode_all.h"
#include "train/samples/encode.h"
#include "train/step/step.h"

namespace burnish::train {

namespace {

/// Options of a run of the same samples and the same model that learns nothing special: a LoRA, which changes nothing before it trains.
TrainOptions plain_run(const TrainOptions& options) {
  TrainOptions plain;
  plain.model = options.model;
  plain.data = options.data;
  plain.data.validation_metadata_path = "";
  plain.dataset = options.dataset;
  plain.cache.path = options.cache.path;
  plain.cache.variants = options.cache.variants;
  plain.extra_inputs = options.extra_inputs;
  plain.loss = options.loss;
  plain.masks = options.masks;
  plain.course.max_steps = 1;
  plain.adapter.rank = 1;
  plain.step.memory.paged_blocks = options.step.memory.paged_blocks;
  plain.step.memory.blocks_on_disk = options.step.memory.blocks_on_disk;
  plain.step.memory.feed_forward_tokens = options.step.memory.feed_forward_tokens;
  plain.step_words.pages_all = options.step_words.pages_all;
  return plain;
}

/// Captions as they are written, each sample with its own at every visit.
Settings settings_of(const TrainOptions& options) {
  auto settings = settle(plain_run(options));
  if (!settings.data.from_pictures)
    config_error("train", "captions are compared by the model, which reads the pictures: name them in place of a cache alone");
  for (auto& subset : settings.data.pictures.subsets) {
    auto& captions = subset.visits.captions;
    captions.dropout = captions.tag_dropout = 0;
    captions.shuffle = captions.wildcards = false;
  }
  return settings;
}

bool is_compared(const Samples& samples, const Sample& sample) { return !samples.set_of(sample).of_class_set; }

/// Captions that differ, in the order in which samples have them first.
std::vector<std::string> different_captions(const Samples& samples) {
  std::vector<std::string> captions;
  for (const auto& sample : samples.list) {
    if (is_compared(samples, sample) && !contains(captions, sample.row.prompt)) captions.push_back(sample.row.prompt);
  }
  return captions;
}

/// Takes the caption itself, then others, which lie evenly among the captions behind it.
std::vector<std::string> with_others(const std::vector<std::string>& captions, const std::string& own, int64_t num_others) {
  const auto count = std::ssize(captions);
  const auto place = std::ranges::find(captions, own) - captions.begin();
  num_others = std::min(num_others, count - 1);
  std::vector<std::string> taken{own};
  for (int64_t i = 0; i < num_others; ++i)
    taken.push_back(captions[static_cast<size_t>((place + 1 + i * (count - 1) / num_others) % count)]);
  return taken;
}

/// Holds what a comparison computes with.
struct Comparison {
  const Trainee& trainee;
  const Feed& feed;
  const Kept& kept;
  int64_t num_draws;
};

/// Computes the mean logarithm of the losses of the sample of this number in the list, under each of its captions.
std::vector<double> losses_of_captions(const Comparison& by, int64_t number, int64_t row, size_t num_captions) {
  std::vector<double> sums(num_captions);
  for (int64_t draw = 0; draw < by.num_draws; ++draw) {
    const auto batch = by.feed.batch(by.trainee.live, {true, number * by.num_draws + draw});
    std::vector<std::string> names;
    for (const auto& [name, slot] : by.kept.by_row.at(row).front()) {
      if (batch.samples.at(0).contains(name)) names.push_back(name);
    }
    for (size_t i = 0; i < num_captions; ++i) {
      auto under = batch;
      for (auto& [name, value] : by.kept.values({row, static_cast<int64_t>(i)}, names)) under.samples[0][name] = value;
      sums[i] += std::log(std::max(losses_of(by.trainee, std::move(under)).item<double>(), 1e-30)) / static_cast<double>(by.num_draws);
    }
  }
  return sums;
}

void sort_and_find_usual(ComparedCaptions& compared) {
  std::vector<double> differences;
  for (const auto& sample : compared.samples) differences.push_back(sample.difference());
  compared.usual = median(differences);
  std::ranges::stable_sort(compared.samples, [](const auto& a, const auto& b) { return a.difference() > b.difference(); });
}

}  // namespace

ComparedCaptions compare_captions(const TrainOptions& options, int64_t num_others) {
  set_threads(options.model.num_threads, options.model.local_size);
  auto run = open_run(settings_of(options));
  const auto& samples = run.samples();
  const auto captions = different_captions(samples);
  if (captions.size() < 3)
    data_error("train", "captions are compared with those of other samples, and {} here; three are the least that say something",
               captions.size() == 1 ? "all are equal" : "only two differ");
  const auto schedule = nothing_ahead(run.schedule);
  std::map<int64_t, std::vector<std::string>> by_row;
  std::vector<Pick> picks;
  for (const auto& sample : samples.list) {
    auto& tried = by_row[sample.number] =
        is_compared(samples, sample) ? with_others(captions, sample.row.prompt, num_others) : std::vector{sample.row.prompt};
    for (const auto& caption : tried) picks.push_back({.row = sample.number, .caption = caption});
  }
  const auto kept = encode_picks(*run.subject, schedule, samples, *run.cache, picks, encoders_by_block(run));
  const Course course(run.settings.course, run.subject.model->process(), *run.objective, samples, &samples);
  const Feed feed(course, {samples, kept}, Source{samples, kept});
  const auto trainee = load_trainee(run.subject, schedule, run.settings.step, {}, run.settings.model.options.device, dist::World());
  const Comparison by{trainee, feed, kept, run.objective->num_held_out_draws()};
  at::NoGradGuard no_grad;
  ComparedCaptions compared;
  Progress progress("compare captions", std::ssize(samples.list));
  for (int64_t i = 0; i < std::ssize(samples.list); ++i) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while comparing captions");
    const auto& sample = samples.list[static_cast<size_t>(i)];
    if (is_compared(samples, sample)) {
      const auto losses = losses_of_captions(by, i, sample.number, by_row.at(sample.number).size());
      double others = 0;
      for (size_t k = 1; k < losses.size(); ++k) others += losses[k] / static_cast<double>(losses.size() - 1);
      compared.samples.push_back({sample.number, sample.row.file, sample.row.prompt, losses.front(), others});
    }
    progress.update(i + 1);
  }
  sort_and_find_usual(compared);
  return compared;
}

}  // namespace burnish::train
