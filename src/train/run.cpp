#include "train/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "memory/heap.h"
#include "memory/recompute.h"
#include "pipeline/labels.h"
#include "train/checks.h"
#include "train/diffsynth_cache.h"
#include "train/distill.h"
#include "train/storage.h"
#include "train/validation.h"

namespace burnish::train {

namespace {

models::ModelNames names_of(const ModelChoice& c) { return {c.model, c.model_paths, c.model_id_with_origin_paths}; }

data::DatasetOptions dataset_options(const TrainOptions& o, const std::string& metadata_path, int64_t division) {
  auto base = o.dataset_base_path.empty() ? std::filesystem::path(metadata_path).parent_path().string() : o.dataset_base_path;
  return {base, metadata_path, o.data_file_keys, {o.height, o.width, o.max_pixels, division}, o.on_bad_sample == "skip"};
}

}  // namespace

Run::Run(const TrainOptions& options) : options_(options) {
  check(options_);
  set_threads(options_.model);
}

void Run::open_files() {
  auto model_options = train::model_options(options_.model);
  model_options.init = options_.init;
  model_options.latents = options_.latents;
  model_ = models::open_model(models::open_model_files(names_of(options_.model)), model_options);
  trained_.emplace(options_, *model_);
  TrainedStorage trained{trained_->whole_paths(), options_.trained_weights == "fp8"};
  choose_storage(*model_, options_.model, trained);
  info("{}, {} on {}", model_->variant(), dtype_name(model_options.dtype), model_options.device.str());
  for (const auto& component : model_->components())
    info("  {:<16} {:>10}  {}{}", component.name, human_bytes(static_cast<double>(component.num_bytes)), component.origin,
         storage_text(*model_, component, options_.model, trained));
  model_->process().check_options(timestep_options(options_), loss_options(options_));
  if (!options_.replay.empty()) replay_.emplace(options_.replay, model_->process());
}

pipeline::Units Run::units() const {
  return distills(options_) ? distill_units(*model_, options_.distill_spacing) : training_units(*model_);
}

/// Has the model run the blocks before the first trained one as a part of its own, to be computed ahead.
void Run::split_first_blocks() {
  if (!trains(options_) || options_.precompute_timesteps != "blocks") return;
  auto component = model_->denoiser();
  first_blocks_ = model_->split_first_blocks([&](const std::string& path) { return trained_->trains(component, path); });
  if (!first_blocks_.empty()) return;
  config_error(
      "train",
      "precompute_timesteps blocks finds no frozen blocks to compute ahead: the first block of {} or what comes before it trains, or "
      "{} models have none that can be split off; name layers of later blocks in lora_target_modules or trainable_models, or leave "
      "it at auto",
      component, model_->family());
}

/// That what is to be computed ahead in any case can be.
void Run::check_ahead() const {
  if (!trains(options_) || !always_ahead()) return;
  auto found = ahead_cut();
  if (found.prepare.empty() && first_blocks_.empty()) {
    config_error("train",
                 "precompute_timesteps on finds nothing to compute ahead: no frozen layers of this model see sample and timestep alone, or "
                 "they train as well (lora_target_modules); leave it at auto");
  }
  if (first_blocks_.empty()) return;
  for (const auto& model : pipeline::models_of(found.live)) {
    if (!pipeline::is_trained(model, {first_blocks_})) continue;
    config_error("train",
                 "precompute_timesteps blocks: what the first blocks read is not known before training, because a text encoder or an "
                 "autoencoder trains or the denoiser reads its own output (direct_distill); leave it at auto");
  }
}

void Run::check_model() {
  trained_->choose_layers();
  split_first_blocks();
  auto units = this->units();
  auto inputs = kDrawn;
  inputs.insert({"prompt", "image", "size_conditioning"});
  pipeline::check(units, inputs);
  cut_ = pipeline::cut(units, kDrawn, trained_->models());
  if (options_.precompute == "none") {
    for (const auto& unit : cut_.prepare) keep_live_.insert(unit.name);
    cut_ = pipeline::cut(units, kDrawn, trained_->models(), keep_live_);
  }
  visit_.emplace(cut_, kDrawn, trained_->models());
  check_ahead();
  if (encodes(options_) || !options_.validation_metadata_path.empty()) {
    for (const auto& component : pipeline::models_of(cut_.prepare)) model_->check(component);
  }
  if (!trains(options_)) return;
  for (const auto& component : pipeline::models_of(cut_.live)) model_->check(component);
  if (options_.resume) checkpoint::check_there(state_folder());
}

void Run::open_data() {
  if (encodes(options_)) {
    cache_ = std::make_unique<data::Cache>(cache_folder(options_));
    open_pictures();
  } else {
    open_cache();
  }
  if (distills(options_)) {
    for (const auto& sample : samples_) trajectory_of(sample.inputs, sample.row);
  }
  if (!options_.validation_metadata_path.empty()) {
    auto o = dataset_options(options_, options_.validation_metadata_path, model_->size_division());
    o.base_path = std::filesystem::path(options_.validation_metadata_path).parent_path().string();
    if (distills(options_)) o.extra_columns = kTrajectoryColumns;
    validation_data_ = std::make_unique<data::Dataset>(o);
  }
  if (trains(options_)) make_sampler();
}

/// What live units read of a sample must be in the cache's list when there is no dataset.
void Run::check_inputs_in_cache() const {
  for (const auto& name : visit_->inputs()) {
    if (name == "prompt" && prepared_->has_captions()) continue;
    if (name == "prompt")
      data_error("train", "what trains reads captions at every visit, and the cache {} lists none; make it again",
                 options_.dataset_base_path);
    data_error("train", "what trains reads the {} at every visit, which a cache does not hold; choose task sft with --cache_path", name);
  }
}

/// A cache that was made before, of ours or of DiffSynth-Studio's.
void Run::open_cache() {
  auto folder = options_.import_diffsynth.empty() ? options_.dataset_base_path : options_.import_diffsynth;
  bool foreign = !data::is_cache(folder) && !diffsynth_files(folder).empty();
  if (!foreign && !data::is_cache(folder))
    data_error("train", "{} holds no cache; make one with --task sft:data_process --output_path {}", folder, folder);
  if (!foreign && !options_.import_diffsynth.empty())
    data_error("train", "{} is a cache of burnish already; train from it with --task sft:train --dataset_base_path {}", folder, folder);
  cache_ = std::make_unique<data::Cache>(!foreign                            ? folder
                                         : options_.import_diffsynth.empty() ? options_.cache_path
                                                                             : cache_folder(options_));
  if (foreign) {
    auto imported = import_diffsynth(folder, cut_.carried, model_->foreign_values(), *cache_);
    prepared_ = std::make_unique<Prepared>(*cache_, imported);
  } else {
    prepared_ = std::make_unique<Prepared>(*cache_, cut_.carried);
  }
  samples_ = prepared_->samples();
  prepared_->check_shapes(model_->value_shapes());
  check_inputs_in_cache();
}

void Run::open_pictures() {
  auto division = model_->size_division();
  if (options_.height > 0) model_->latent_shape(options_.height, options_.width);  // refuses a size that does not divide
  auto o = dataset_options(options_, train::metadata_path(options_), division);
  o.augmentation = augmentation(options_);
  if (distills(options_)) o.extra_columns = kTrajectoryColumns;
  dataset_ = std::make_unique<data::Dataset>(o);
  if (!dataset_->bad_samples().empty()) {
    warn("{} of the samples cannot be used and are left out:", dataset_->bad_samples().size());
    for (const auto& [row, reason] : dataset_->bad_samples()) warn("  row {}: {}", row, reason);
  }
  for (auto row : dataset_->rows()) samples_.push_back({row, dataset_->size(row), dataset_->prompt(row), dataset_->extra(row)});
}

void Run::make_sampler() {
  std::vector<int64_t> rows;
  std::vector<data::Size> sizes;
  for (const auto& sample : samples_) {
    rows.push_back(sample.row);
    sizes.push_back(sample.size);
  }
  auto seed = static_cast<uint64_t>(options_.model.seed);
  sampler_ = std::make_unique<data::Sampler>(rows, sizes, options_.batch_size, options_.dataset_repeat, seed);
  auto batches = sampler_->batches_per_epoch() * options_.num_epochs;
  if (options_.max_steps == 0)
    options_.max_steps = (batches + options_.gradient_accumulation_steps - 1) / options_.gradient_accumulation_steps;
  schedule_ = schedule_options(options_, options_.max_steps);
  optim::check(schedule_);
  info("{} samples, {} batches an epoch, {} steps", samples_.size(), sampler_->batches_per_epoch(), options_.max_steps);
}

void Run::check_run() {
  if (replay_) {
    std::map<int64_t, data::Size> usable;
    for (const auto& sample : samples_) usable[sample.row] = sample.size;
    replay_->check(options_.max_steps * options_.gradient_accumulation_steps, [&](int64_t row) {
      if (!usable.contains(row)) return std::vector<int64_t>{};
      auto size = usable.at(row);
      return model_->latent_shape(size.height, size.width);
    });
  }
  if (options_.resume) {
    auto saved = checkpoint::read_progress(state_folder(), fingerprint());
    if (saved.step >= options_.max_steps)
      warn("the saved state is at step {} and max_steps is {}: there is nothing left to train", saved.step, options_.max_steps);
  }
  make_output_folder(options_.output_path);
}

void Run::prepare_data() {
  keep_budget();
  Share share{options_.num_processes, options_.process_index};
  if (encodes(options_)) prepared_ = std::make_unique<Prepared>(*model_, cut_, *dataset_, *cache_, share);
  if (options_.caption_dropout > 0) prepared_->check_empty_caption(units());
  if (validation_data_) validation_ = std::make_unique<Prepared>(*model_, cut_, *validation_data_, *cache_, share);
  info("{} samples, {} in {}; computed at every visit: {}", samples_.size(), human_bytes(static_cast<double>(prepared_->num_bytes())),
       cache_->on_disk() ? cache_->folder().string() : "memory", join(pipeline::models_of(cut_.live)));
}

SplitPlan Run::plan_split() {
  auto gib = static_cast<double>(int64_t{1} << 30);
  auto num_samples = static_cast<double>(samples_.size());
  pipeline::CutBudget budget;
  if (options_.cache_budget > 0) budget.cache_bytes = options_.cache_budget * gib / num_samples;
  if (options_.memory_budget > 0) budget.weight_bytes = options_.memory_budget * gib;
  auto visits = static_cast<double>(options_.max_steps * options_.gradient_accumulation_steps * options_.batch_size) / num_samples;
  using When = AheadRule::When;
  AheadRule ahead{always_ahead()                            ? When::always
                  : options_.precompute_timesteps == "auto" ? When::if_smaller
                                                            : When::never,
                  visits * num_samples + static_cast<double>(num_held_out_visits()), model_options(options_.model).device};
  return train::plan_split(*model_, units(), trained_->models(), *dataset_, std::max(1.0, visits), budget, ahead);
}

/// Under a budget, takes the cheapest cut in place of the one that computes everything fixed once.
void Run::keep_budget() {
  if (options_.cache_budget <= 0 && options_.memory_budget <= 0) return;
  auto plan = plan_split();
  if (!plan.keeps_budget) {
    throw Error(Exit::no_fit, "train",
                fmt::format("no cut keeps the budget: the nearest keeps {} in all and {} of weights loaded; raise cache_budget or "
                            "memory_budget, or store weights in fewer bits with --fp8_models",
                            human_bytes(plan.cheapest.cache_bytes * static_cast<double>(samples_.size())),
                            human_bytes(plan.cheapest.weight_bytes)));
  }
  keep_live_ = plan.keep_live();
  computes_ahead_ = plan.computes_ahead;
  cut_ = pipeline::cut(units(), kDrawn, trained_->models(), keep_live_);
  visit_.emplace(cut_, kDrawn, trained_->models());
  std::vector<std::string> live(keep_live_.begin(), keep_live_.end());
  info("within the budget: {} kept; at every visit besides what must: {}", cut_.carried.empty() ? "nothing is" : join(cut_.carried),
       live.empty() ? "nothing" : join(live));
}

pipeline::Cut Run::ahead_cut() const { return pipeline::cut_ahead(cut_.live, trained_->models(), keep_live_); }

int64_t Run::num_held_out_visits() const {
  return validation_data_ ? std::ssize(validation_data_->rows()) * std::ssize(kValidationShares) : 0;
}

/// Bytes that results computed ahead may not reach.
double Run::ahead_limit() const {
  auto limit = always_ahead() ? 1e300 : static_cast<double>(ahead_->num_weight_bytes());
  if (options_.cache_budget <= 0) return limit;
  auto kept = prepared_->num_bytes() + (validation_ ? validation_->num_bytes() : 0);
  return std::min(limit, options_.cache_budget * static_cast<double>(int64_t{1} << 30) - static_cast<double>(kept));
}

void Run::compute_ahead() {
  auto found = ahead_cut();
  if (options_.precompute_timesteps == "off" || !computes_ahead_ || found.prepare.empty()) return;
  bool on_disk = always_ahead() && cache_->on_disk();
  if (!on_disk) ahead_cache_ = std::make_unique<data::Cache>("");
  ahead_.emplace(*model_, cut_, found, kDrawn, on_disk ? *cache_ : *ahead_cache_, model_options(options_.model).device);

  auto first = options_.resume ? checkpoint::read_progress(state_folder(), fingerprint()).batch : 0;
  auto num_batches = std::max<int64_t>(0, options_.max_steps * options_.gradient_accumulation_steps - first);
  auto num_held_out = num_held_out_visits();
  auto weights = static_cast<double>(ahead_->num_weight_bytes());
  auto what = fmt::format("{} of {} visits", join(ahead_->carried()), num_batches * options_.batch_size + num_held_out);
  bool done = ahead_->compute(
      num_batches + num_held_out, [&](int64_t i) { return planned_batch(i < num_batches ? first + i : num_batches - 1 - i); },
      ahead_limit());
  if (!done && always_ahead()) {
    throw Error(Exit::no_fit, "train",
                fmt::format("{} take {}, more than cache_budget leaves; raise it, train fewer steps, or set precompute_timesteps to off",
                            what, human_bytes(ahead_->num_bytes())));
  }
  if (!done) {
    info("{} computed at every visit: ahead of training it takes {}, its weights take {}", what, human_bytes(ahead_->num_bytes()),
         human_bytes(weights));
    ahead_.reset();
    ahead_cache_.reset();
    return;
  }
  info("{} computed ahead: {} in {} instead of {} of weights", what, human_bytes(ahead_->num_bytes()),
       on_disk ? cache_->folder().string() : "memory", human_bytes(weights));
  auto given = kDrawn;
  given.insert(found.carried.begin(), found.carried.end());
  cut_.live = found.live;
  visit_.emplace(cut_, given, trained_->models());
}

/// A batch of the run by its number; below 0 the visits of held-out samples.
Ahead::Batch Run::planned_batch(int64_t index) {
  bool with_noise = ahead_->reads("noise");
  std::set<std::string> inputs(ahead_->inputs().begin(), ahead_->inputs().end());
  if (index >= 0) {
    std::vector<Pick> picks;
    auto draw = draw_batch(index, picks, with_noise);
    return batch_of(picks, *prepared_, dataset_.get(), draw, inputs);
  }
  auto num_shares = std::ssize(kValidationShares);
  auto row = validation_data_->rows()[static_cast<size_t>((-1 - index) / num_shares)];
  auto draw = validation_draw(row, kValidationShares[(-1 - index) % num_shares]);
  return batch_of({row}, *validation_, validation_data_.get(), draw, inputs);
}

void Run::finish_cache() {
  prepared_->save_list();
  fmt::print("{}: {} of {} samples, {}\n", cache_->folder().string(), prepared_->num_complete(), samples_.size(),
             human_bytes(static_cast<double>(prepared_->num_bytes())));
}

void Run::load_models() {
  auto live = pipeline::models_of(cut_.live);
  auto runner = options_.use_gradient_checkpointing ? memory::recompute() : nullptr;
  for (const auto& component : pipeline::components_of(cut_.live)) {
    std::vector<std::string> names;  // of its parts that run
    std::copy_if(live.begin(), live.end(), std::back_inserter(names),
                 [&](const auto& m) { return pipeline::component_of(m) == component; });
    model_->load(pipeline::common_part(names));
    info("in memory while training: {}, {}", join(names), human_bytes(static_cast<double>(model_->module(component).num_bytes())));
    if (!runner) continue;
    for (auto* block : model_->blocks(component)) block->runner = runner;
  }
  auto seed = static_cast<uint64_t>(options_.model.seed);
  if (trained_->has_adapters())
    dropout_ = std::make_shared<adapters::Dropout>(adapters::Dropout{.probability = options_.lora_dropout, .seed = seed});
  trained_->start(dropout_);
  memory::trim_heap();
}

void Run::make_optimizer() {
  auto parameters = trained_->parameters();
  int64_t count = 0;
  for (const auto& p : parameters) count += p.value.numel();
  info("{:.2f} million trained parameters", static_cast<double>(count) / 1e6);
  optim::apply_groups(parameters, group_options(options_), options_.learning_rate);
  optimizer_ = optim::make_optimizer(optimizer_options(options_), std::move(parameters));
  if (options_.ema_decay > 0) ema_ = std::make_unique<optim::Ema>(optimizer_->parameters());
  progress_.fingerprint = fingerprint();
  if (parse_dtype(options_.model.dtype) == c10::kHalf) progress_.loss_scale = optim::LossScale::for_fp16();
  if (options_.resume) {
    progress_ = checkpoint::load_state(state_folder(), {*optimizer_, ema_.get()}, progress_.fingerprint);
    saved_step_ = progress_.step;
    info("resumed at step {}", progress_.step);
  }
}

/// Options that a saved state is only good for.
std::string Run::fingerprint() const {
  const auto& o = options_;
  std::string more;  // options that came later: absent at their defaults, so that older states stay good
  if (distills(o)) more += ", direct_distill";
  if (o.latents != "mean") more += ", latents " + o.latents;
  if (o.caption_dropout > 0) more += fmt::format(", caption_dropout {}", o.caption_dropout);
  if (auto a = augmentation(o); a.num_variants > 1 || a.random_flip || a.random_crop)
    more += fmt::format(", {} variants{}{}", a.num_variants, a.random_crop ? " random_crop" : "", a.random_flip ? " random_flip" : "");
  if (trained_->has_adapters() && o.lora_alpha > 0) more += fmt::format(", alpha {}", o.lora_alpha);
  if (trained_->has_adapters() && o.use_rslora) more += ", rank-stabilised";
  if (!trained_->whole_components().empty() && o.trained_weights != "stochastic") more += ", weights " + o.trained_weights;
  if (!o.optimizer_args.empty()) more += ", optimizer_args " + o.optimizer_args;
  if (o.ema_decay > 0) more += fmt::format(", ema_decay {}", o.ema_decay);
  return fmt::format("seed {}, batch_size {}, gradient_accumulation_steps {}, dataset_repeat {}, samples {}, dtype {}, optimizer {}, {}{}",
                     o.model.seed, o.batch_size, o.gradient_accumulation_steps, o.dataset_repeat, samples_.size(), o.model.dtype,
                     o.optimizer, trained_->text(), more);
}

std::filesystem::path Run::state_folder() const { return std::filesystem::path(options_.output_path) / "state"; }

}  // namespace burnish::train
