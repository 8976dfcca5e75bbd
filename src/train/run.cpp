#include "train/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "adapters/adapter_file.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "memory/recompute.h"
#include "train/checks.h"
#include "train/storage.h"

namespace burnish::train {

namespace {

models::ModelNames names_of(const ModelChoice& c) { return {c.model, c.model_paths, c.model_id_with_origin_paths}; }

data::DatasetOptions dataset_options(const TrainOptions& o, const std::string& metadata_path, int64_t division) {
  auto base = o.dataset_base_path.empty() ? std::filesystem::path(metadata_path).parent_path().string() : o.dataset_base_path;
  return {base, metadata_path, o.data_file_keys, {o.height, o.width, o.max_pixels, division}, o.on_bad_sample == "skip"};
}

std::string type_of(const adapters::Adapter& adapter) {
  return adapter.is_dora() ? "dora" : std::string(adapters::kind_name(adapter.update().kind()));
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
  choose_storage(*model_, options_.model, trains_lora() ? "" : model_->denoiser());
  info("{}, {} on {}", model_->variant(), dtype_name(model_options.dtype), model_options.device.str());
  for (const auto& component : model_->components())
    info("  {:<16} {:>10}  {}{}", component.name, human_bytes(static_cast<double>(component.num_bytes)), component.origin,
         storage_text(*model_, component, options_.model));
  model_->process().check_options(timestep_options(options_), loss_options(options_));
  if (!options_.replay.empty()) replay_.emplace(options_.replay, model_->process());
}

pipeline::Units Run::training_units() {
  auto groups = model_->units();
  pipeline::Units all;
  for (const auto* group :
       {&groups.encode_prompt, &groups.encode_image, &groups.encode_size, &groups.add_noise, &groups.denoise, &groups.loss})
    all.insert(all.end(), group->begin(), group->end());
  auto known = kDrawn;
  known.insert({"prompt", "image", "size_conditioning"});
  pipeline::check(all, known);
  return all;
}

void Run::check_model() {
  cut_ = pipeline::cut(training_units(), kDrawn, {model_->denoiser()});
  if (encodes(options_) || !options_.validation_metadata_path.empty()) {
    for (const auto& component : pipeline::models_of(cut_.prepare)) model_->check(component);
  }
  if (!trains(options_)) return;
  for (const auto& component : pipeline::models_of(cut_.live)) model_->check(component);
  if (trains_lora()) {
    auto skeleton = model_->skeleton(model_->denoiser());
    if (options_.lora_checkpoint.empty()) {
      lora_rank_ = options_.lora_rank;
      num_adapted_ = std::ssize(
          adapters::match_targets(*skeleton, lora_targets(), [&](auto& path) { return model_->target_names(model_->denoiser(), path); }));
    } else {
      auto weights = read_lora(*model_, *skeleton, options_.lora_checkpoint);
      lora_rank_ = adapters::rank_of(weights[0]);
      num_adapted_ = std::ssize(weights);
    }
  }
  if (options_.resume) checkpoint::check_there(state_folder());
}

void Run::open_data() {
  auto folder = cache_folder(options_);
  if (!encodes(options_) && !data::is_cache(folder))
    data_error("train", "{} holds no cache; make one with --task sft:data_process --output_path {}", folder, folder);
  cache_ = std::make_unique<data::Cache>(folder);
  if (encodes(options_)) {
    open_pictures();
  } else {
    prepared_ = std::make_unique<Prepared>(*cache_, cut_.carried);
    samples_ = prepared_->samples();
    prepared_->check_shapes(model_->value_shapes());
  }
  if (!options_.validation_metadata_path.empty()) {
    auto o = dataset_options(options_, options_.validation_metadata_path, model_->size_division());
    o.base_path = std::filesystem::path(options_.validation_metadata_path).parent_path().string();
    validation_data_ = std::make_unique<data::Dataset>(o);
  }
  if (trains(options_)) make_sampler();
}

void Run::open_pictures() {
  auto division = model_->size_division();
  if (options_.height > 0) model_->latent_shape(options_.height, options_.width);  // refuses a size that does not divide
  auto o = dataset_options(options_, train::metadata_path(options_), division);
  o.augmentation = augmentation(options_);
  dataset_ = std::make_unique<data::Dataset>(o);
  if (!dataset_->bad_samples().empty()) {
    warn("{} of the samples cannot be used and are left out:", dataset_->bad_samples().size());
    for (const auto& [row, reason] : dataset_->bad_samples()) warn("  row {}: {}", row, reason);
  }
  for (auto row : dataset_->rows()) samples_.push_back({row, dataset_->size(row)});
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
  schedule_ = {options_.lr_scheduler, options_.lr_warmup_steps, options_.max_steps};
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
  Share share{options_.num_processes, options_.process_index};
  if (encodes(options_)) prepared_ = std::make_unique<Prepared>(*model_, cut_, *dataset_, *cache_, share);
  if (options_.caption_dropout > 0) prepared_->check_empty_caption(training_units());
  if (validation_data_) validation_ = std::make_unique<Prepared>(*model_, cut_, *validation_data_, *cache_, share);
  info("{} samples, {} in {}; no encoder is loaded now", samples_.size(), human_bytes(static_cast<double>(prepared_->num_bytes())),
       cache_->on_disk() ? cache_->folder().string() : "memory");
}

SplitPlan Run::plan_split(double cache_gib, double memory_gib) {
  auto gib = static_cast<double>(int64_t{1} << 30);
  auto num_samples = static_cast<double>(samples_.size());
  pipeline::CutBudget budget;
  if (cache_gib > 0) budget.cache_bytes = cache_gib * gib / num_samples;
  if (memory_gib > 0) budget.weight_bytes = memory_gib * gib;
  auto visits = static_cast<double>(options_.max_steps * options_.gradient_accumulation_steps * options_.batch_size) / num_samples;
  return train::plan_split(*model_, training_units(), {model_->denoiser()}, *dataset_, std::max(1.0, visits), budget);
}

void Run::finish_cache() {
  prepared_->save_list();
  fmt::print("{}: {} of {} samples, {}\n", cache_->folder().string(), prepared_->num_complete(), samples_.size(),
             human_bytes(static_cast<double>(prepared_->num_bytes())));
}

void Run::load_denoiser() {
  model_->load(model_->denoiser());
  auto& root = model_->module(model_->denoiser());
  root.visit_parameters([&](const std::string&, at::Tensor& p) { p.set_requires_grad(!trains_lora()); });
  if (trains_lora()) hang_adapters();
  if (options_.use_gradient_checkpointing) {
    auto runner = memory::recompute();
    for (auto* block : model_->blocks(model_->denoiser())) block->runner = runner;
  }
}

void Run::hang_adapters() {
  auto& root = model_->module(model_->denoiser());
  auto seed = static_cast<uint64_t>(options_.model.seed);
  dropout_ = std::make_shared<adapters::Dropout>(adapters::Dropout{.probability = options_.lora_dropout, .seed = seed});
  if (!options_.lora_checkpoint.empty()) {
    adapted_ = adapters::attach_weights(root, read_lora(*model_, root, options_.lora_checkpoint), options_.lora_checkpoint, dropout_);
  } else {
    auto adapter = adapter_options(options_);
    adapter.target_modules = lora_targets();
    adapted_ = adapters::attach(
        root, adapter, [&](const std::string& path) { return model_->target_names(model_->denoiser(), path); }, seed, dropout_);
  }
  const auto& first = *adapted_[0].adapter;
  info("{} of rank {}, scale {:.4g} on {} layers", type_of(first), first.update().rank(), first.update().scale(), adapted_.size());
  if (!first.is_dora()) return;
  if (first.magnitude().axis == adapters::NormAxis::input)
    warn("dora_norm input: peft and diffusers cannot load such a file; OneTrainer and ComfyUI do");
  else info("dora_norm output: peft and diffusers load such a file as it was trained; ComfyUI may take norms of the base alone");
}

void Run::make_optimizer() {
  optim::ParameterList parameters;
  if (trains_lora()) {
    for (const auto& item : adapted_) {
      for (const auto& [name, value] : item.adapter->parameters()) parameters.push_back({item.path + "." + name, value});
    }
  } else {
    model_->module(model_->denoiser()).visit_parameters([&](const std::string& path, at::Tensor& p) { parameters.push_back({path, p}); });
  }
  int64_t count = 0;
  for (const auto& p : parameters) count += p.value.numel();
  info("{:.2f} million trained parameters", static_cast<double>(count) / 1e6);
  optimizer_ = optim::make_optimizer({.name = options_.optimizer,
                                      .weight_decay = options_.weight_decay,
                                      .rounding = optim::parse_rounding(options_.trained_weights),
                                      .seed = static_cast<uint64_t>(options_.model.seed)},
                                     std::move(parameters));
  progress_.fingerprint = fingerprint();
  if (options_.resume) {
    progress_ = checkpoint::load_state(state_folder(), *optimizer_, progress_.fingerprint);
    saved_step_ = progress_.step;
    info("resumed at step {}", progress_.step);
  }
}

/// Options that a saved state is only good for.
std::string Run::fingerprint() const {
  const auto& o = options_;
  std::string more;  // options that came later: absent at their defaults, so that older states stay good
  if (o.latents != "mean") more += ", latents " + o.latents;
  if (o.caption_dropout > 0) more += fmt::format(", caption_dropout {}", o.caption_dropout);
  if (auto a = augmentation(o); a.num_variants > 1 || a.random_flip || a.random_crop)
    more += fmt::format(", {} variants{}{}", a.num_variants, a.random_crop ? " random_crop" : "", a.random_flip ? " random_flip" : "");
  if (trains_lora() && o.lora_alpha > 0) more += fmt::format(", alpha {}", o.lora_alpha);
  if (trains_lora() && o.use_rslora) more += ", rank-stabilised";
  if (!trains_lora() && o.trained_weights != "stochastic") more += ", weights " + o.trained_weights;
  return fmt::format("seed {}, batch_size {}, gradient_accumulation_steps {}, dataset_repeat {}, samples {}, dtype {}, optimizer {}, {}{}",
                     o.model.seed, o.batch_size, o.gradient_accumulation_steps, o.dataset_repeat, samples_.size(), o.model.dtype,
                     o.optimizer,
                     trains_lora() ? fmt::format("{} rank {} on {} layers", options_.lora_type, lora_rank_, num_adapted_) : "full", more);
}

std::string Run::lora_targets() const {
  return options_.lora_target_modules == "default" ? model_->default_lora_targets(model_->denoiser()) : options_.lora_target_modules;
}

std::filesystem::path Run::state_folder() const { return std::filesystem::path(options_.output_path) / "state"; }

io::NamedTensors Run::trained_tensors(c10::ScalarType dtype) const {
  if (trains_lora())
    return adapters::adapter_tensors(adapted_, model_->layer_names(model_->denoiser()).diffusers, dtype,
                                     adapters::parse_layout(options_.lora_format));
  io::NamedTensors tensors;
  const auto& parameters = optimizer_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) tensors.emplace_back(parameters[i].name, optimizer_->exact_value(i).to(dtype));
  return tensors;
}

io::Metadata Run::file_metadata() const {
  io::Metadata m{{"format", "pt"}, {"base_model", model_->variant()}, {"step", std::to_string(progress_.step)}, {"trainer", "burnish"}};
  if (!trains_lora()) return m;
  const auto& first = *adapted_[0].adapter;
  m["adapter"] = type_of(first);
  m["rank"] = std::to_string(first.update().rank());
  m["alpha"] = fmt::format("{}", first.update().scale() * static_cast<double>(std::max<int64_t>(1, first.update().rank())));
  if (first.is_dora()) m["dora_norm"] = first.magnitude().axis == adapters::NormAxis::output ? "output" : "input";
  return m;
}

}  // namespace burnish::train
