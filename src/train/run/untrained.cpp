#include "train/run/untrained.h"

#include "base/input_error.h"
#include "base/threads.h"
#include "train/course/ahead.h"
#include "train/run/encode_all.h"
#include "train/samples/encode.h"

namespace burnish::train {

namespace {

/// Options of a run of the same samples and the same model that learns nothing special: a LoRA, which changes nothing before it trains.
TrainOptions plain_run(const TrainOptions& options, const Untrained::Question& question) {
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
  plain.adapter.rank = question.rank;
  auto& memory = plain.step.memory;
  memory.paged_blocks = options.step.memory.paged_blocks;
  memory.blocks_on_disk = options.step.memory.blocks_on_disk;
  memory.feed_forward_tokens = options.step.memory.feed_forward_tokens;
  plain.step_words.pages_all = options.step_words.pages_all;
  if (!question.with_backward) return plain;
  memory.interval = options.step.memory.interval;
  memory.recompute_every = options.step.memory.recompute_every;
  memory.checkpoints_in_host = options.step.memory.checkpoints_in_host;
  plain.step_words.recomputes = options.step_words.recomputes;
  return plain;
}

/// Captions as they are written, each sample with its own at every visit.
Settings settings_of(const TrainOptions& options, const Untrained::Question& question) {
  set_threads(options.model.num_threads, options.model.local_size);
  auto settings = settle(plain_run(options, question));
  if (!settings.data.from_pictures)
    config_error("train", "{} by the model, which reads the pictures: name them in place of a cache alone", question.is);
  for (auto& subset : settings.data.pictures.subsets) {
    auto& captions = subset.visits.captions;
    captions.dropout = captions.tag_dropout = 0;
    captions.shuffle = captions.wildcards = false;
  }
  return settings;
}

std::vector<Pick> own_captions(const Samples& samples) {
  std::vector<Pick> picks;
  for (const auto& sample : samples.list) picks.push_back({.row = sample.number, .caption = sample.row.prompt});
  return picks;
}

}  // namespace

Untrained::Untrained(const TrainOptions& options, const Question& question)
    : run_(open_run(settings_of(options, question))), schedule_(nothing_ahead(run_.schedule)) {
  const auto picks = question.picks ? question.picks(samples()) : own_captions(samples());
  kept_ = encode_picks(*run_.subject, schedule_, samples(), *run_.cache, picks, encoders_by_block(run_));
  course_.emplace(run_.settings.course, run_.subject.model->process(), *run_.objective, samples(), &samples());
  feed_.emplace(*course_, Source{samples(), *kept_}, Source{samples(), *kept_});
  trainee_.emplace(load_trainee(run_.subject, schedule_, run_.settings.step, {}, run_.settings.model.options.device, dist::World()));
}

}  // namespace burnish::train
