#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random_key.h"
#include "diffusion/flow_match.h"
#include "io/files.h"
#include "train/distill.h"
#include "train/preparation.h"
#include "train/run.h"
#include "train/validation.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

/// Drops the lines of steps that a resumed run will take again (those after its last save).
void cut_log(const fs::path& path, int64_t step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_object() && entry.value("step", int64_t{0}) <= step) kept += line + "\n";
  }
  io::write_text_atomic(path, kept);
}

/// Highest resident memory of this process so far.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// Highest memory that tensors took on the GPU so far; 0 when the run does not use one.
int64_t peak_device_memory() {
  if (!at::hasCUDA()) return 0;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(0).allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

}  // namespace

Draw Run::draw_batch(int64_t index, std::vector<Pick>& picks, bool with_noise) const {
  bool draws_latents = options_.latents == "sample";
  if (replay_) {
    picks = {replay_->row(index)};
    auto shape = latent_shape(picks[0], *prepared_);
    auto recorded = replay_->step(index, shape).draw;
    if (draws_latents) recorded.latent_noise_BCHW = replay_->latent_noise(index, shape);
    return recorded;
  }
  auto seed = static_cast<uint64_t>(options_.model.seed);
  auto batch = sampler_->batch(index);
  for (const auto& visit : batch) picks.push_back(pick(visit, prepared_->num_variants(), options_.caption_dropout, seed));
  if (distills(options_)) return {};
  auto shape = latent_shape(picks[0], *prepared_);
  auto drawn = draw(batch, shape, model_->num_tokens(shape), model_->process(),
                    {timestep_options(options_), options_.noise_offset, seed, with_noise});
  if (draws_latents) drawn.latent_noise_BCHW = latent_noise(batch, shape, seed);
  return drawn;
}

/// That of the latents in the cache, or what the picture's size leads to.
std::vector<int64_t> Run::latent_shape(const Pick& pick, const Prepared& prepared) const {
  auto shape = latent_shape_of(prepared.values(pick));
  if (!shape.empty()) return shape;
  auto size = prepared.sample(pick.row).size;
  return model_->latent_shape(size.height, size.width);
}

/// What a visit takes of a sample's row: for its live units, and to find what was computed ahead.
std::set<std::string> Run::visit_inputs() const {
  std::set<std::string> inputs(visit_->inputs().begin(), visit_->inputs().end());
  if (ahead_) inputs.insert(ahead_->inputs().begin(), ahead_->inputs().end());
  return inputs;
}

/// What is known of a batch before anything runs, on the CPU: the values in the cache, those of `inputs`, and the draws.
Ahead::Batch Run::batch_of(const std::vector<Pick>& picks, const Prepared& prepared, const data::Dataset* dataset, const Draw& draw,
                           const std::set<std::string>& inputs) const {
  Ahead::Batch batch;
  for (const auto& pick : picks) {
    auto& values = batch.samples.emplace_back(prepared.values(pick));
    for (const auto& name : inputs) {
      if (name == "prompt") values[name] = pick.empty_caption ? "" : prepared.sample(pick.row).prompt;
      if (name == "size_conditioning") values[name] = size_conditioning(*dataset, pick.row, pick.variant);
      if (name == "image") values[name] = dataset->load(pick.row, pick.variant).image_3HW.unsqueeze(0);
    }
  }
  if (distills(options_)) {
    batch.draws = trajectories(picks, prepared);
    return batch;
  }
  batch.draws[model_->process().time_name()] = draw.time_B;
  if (draw.noise_BCHW.defined()) batch.draws["noise"] = draw.noise_BCHW;
  if (draw.latent_noise_BCHW.defined()) batch.draws["latent_noise"] = draw.latent_noise_BCHW;
  if (ahead_ && ahead_->is_complete()) batch.draws.merge(ahead_->values(batch));
  return batch;
}

/// Where the teacher's pictures began, and the steps that they take.
pipeline::Values Run::trajectories(const std::vector<Pick>& picks, const Prepared& prepared) const {
  std::vector<at::Tensor> starts;
  std::vector<int64_t> num_steps;
  for (const auto& pick : picks) {
    auto trajectory = trajectory_of(prepared.sample(pick.row).inputs, pick.row);
    starts.push_back(start_noise(trajectory, latent_shape(pick, prepared), parse_dtype(options_.model.dtype)));
    num_steps.push_back(trajectory.num_steps);
  }
  return {{"start_noise", at::cat(starts)}, {"num_inference_steps", at::tensor(num_steps)}};
}

pipeline::Values Run::visit(Ahead::Batch batch) const {
  auto device = model_options(options_.model).device;
  for (auto& sample : batch.samples) sample = pipeline::moved(std::move(sample), device);
  return visit_->run(std::move(batch.samples), pipeline::moved(std::move(batch.draws), device));
}

/// Has a batch's stored values read from disk while the batch before it is computed.
void Run::prefetch(int64_t index) const {
  if (!cache_->on_disk() || replay_ || index >= options_.max_steps * options_.gradient_accumulation_steps) return;
  auto seed = static_cast<uint64_t>(options_.model.seed);
  for (const auto& visit : sampler_->batch(index)) {
    for (const auto& [name, value] : prepared_->values(pick(visit, prepared_->num_variants(), options_.caption_dropout, seed))) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) io::prefetch(*tensor);
    }
  }
}

at::Tensor Run::weighted_loss(Ahead::Batch batch) const {
  if (distills(options_)) return std::get<at::Tensor>(visit(std::move(batch)).at("loss")).mean();
  auto time_B = std::get<at::Tensor>(batch.draws.at(model_->process().time_name()));
  auto loss = std::get<at::Tensor>(visit(std::move(batch)).at("loss"));
  auto weights = time_B.clone();
  for (int64_t i = 0; i < weights.numel(); ++i)
    weights[i] = model_->process().loss_weight(loss_options(options_), time_B[i].item<double>());
  return (loss * weights.to(loss.device())).mean();
}

/// What to do about a step that came out not finite.
std::string Run::why_not_finite() {
  for (const auto& component : pipeline::components_of(cut_.live)) {
    for (const auto& [name, weight] : model_->module(component).parameters()) {
      bool changed = weight->requires_grad() && progress_.step > 0;
      if (changed || at::isfinite(*weight).all().item<bool>()) continue;
      return fmt::format("the model's weight '{}' ({}) is not finite, so its file is damaged: get it again", name, component);
    }
  }
  return "try a lower learning_rate, max_grad_norm 1, or fp32";
}

/// Gradients of one optimizer step's batches, and their norm.
Run::StepResult Run::accumulate() {
  StepResult result;
  optimizer_->zero_grad();
  if (dropout_) dropout_->active = true;
  for (int64_t i = 0; i < options_.gradient_accumulation_steps; ++i) {
    auto start = std::chrono::steady_clock::now();
    std::vector<Pick> picks;
    auto draw = draw_batch(progress_.batch, picks);
    auto batch = batch_of(picks, *prepared_, dataset_.get(), draw, visit_inputs());
    prefetch(progress_.batch + 1);
    result.data_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (dropout_) dropout_->draw = static_cast<uint64_t>(progress_.batch);
    auto loss = weighted_loss(std::move(batch)) / static_cast<double>(options_.gradient_accumulation_steps);
    torch::autograd::backward({progress_.loss_scale.in_use() ? loss * progress_.loss_scale.factor : loss}, {});
    result.loss += loss.item<double>();
    result.num_samples += std::ssize(picks);
    ++progress_.batch;
  }
  if (dropout_) dropout_->active = false;
  if (progress_.loss_scale.in_use()) optim::scale_gradients(optimizer_->parameters(), 1 / progress_.loss_scale.factor);
  result.grad_norm = optim::gradient_norm(optimizer_->parameters()).item<double>();
  return result;
}

Run::StepResult Run::step() {
  auto result = accumulate();
  while (std::isfinite(result.loss) && !std::isfinite(result.grad_norm) && progress_.loss_scale.retreat()) {
    progress_.batch -= options_.gradient_accumulation_steps;  // the same batches, with the same draws
    result = accumulate();
  }
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
    data_error("train", "step {}: loss {} and gradient norm {} are not finite; {}; {}", progress_.step + 1, result.loss, result.grad_norm,
               why_not_finite(), saved_step_ < 0 ? "nothing was saved yet" : "the last saved state is intact");
  }
  optim::clip_gradients(optimizer_->parameters(), at::full({}, result.grad_norm, at::kDouble), options_.max_grad_norm);
  result.learning_rate = options_.learning_rate * optim::lr_factor(schedule_, progress_.step);
  optimizer_->step(result.learning_rate);
  progress_.loss_scale.succeeded();
  ++progress_.step;
  if (ema_) ema_->update(optim::ema_decay(options_.ema_decay, progress_.step));
  return result;
}

/// Noise and time on which a held-out sample is judged: the same in every run.
Draw Run::validation_draw(int64_t row, double share) const {
  auto shape = latent_shape(row, *validation_);
  RandomKey key{0, static_cast<uint64_t>(share * 1000), static_cast<uint64_t>(row), Purpose::sample};
  Draw fixed{diffusion::normal_noise(key.value(), shape).unsqueeze(0), at::full({1}, model_->process().time_at(share), at::kFloat), {}};
  if (options_.latents == "sample") fixed.latent_noise_BCHW = at::zeros_like(fixed.noise_BCHW);  // the mean
  return fixed;
}

double Run::validation_loss() {
  at::NoGradGuard no_grad;
  optim::Averaged averaged(*optimizer_, ema_.get());
  double sum = 0;
  int64_t count = 0;
  for (auto row : validation_data_->rows()) {
    std::vector<Draw> draws;
    if (distills(options_)) draws.emplace_back();  // the trajectory has its own noise and times
    else
      for (double share : kValidationShares) draws.push_back(validation_draw(row, share));
    for (const auto& draw : draws) {
      auto values = visit(batch_of({row}, *validation_, validation_data_.get(), draw, visit_inputs()));
      sum += std::get<at::Tensor>(values.at("loss")).mean().item<double>();
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

void Run::log_step(const StepResult& r, double seconds) {
  nlohmann::json line{{"step", progress_.step},
                      {"loss", r.loss},
                      {"grad_norm", r.grad_norm},
                      {"lr", r.learning_rate},
                      {"samples_per_second", static_cast<double>(r.num_samples) / seconds},
                      {"step_seconds", seconds},
                      {"data_seconds", r.data_seconds},
                      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
                      {"peak_memory_bytes", peak_memory()}};
  if (auto bytes = peak_device_memory(); bytes > 0) line["peak_device_memory_bytes"] = bytes;
  std::ofstream log(fs::path(options_.output_path) / "log.jsonl", std::ios::app);
  if (!(log << line.dump() << "\n" << std::flush)) {
    data_error("train", "cannot write {}: {}; the last saved state is intact, go on with --resume once there is room",
               (fs::path(options_.output_path) / "log.jsonl").string(), std::strerror(errno));
  }
}

void Run::save(bool final) {
  auto dtype = parse_dtype(options_.save_dtype.empty() ? options_.model.dtype : options_.save_dtype);
  auto folder = fs::path(options_.output_path);
  std::optional<optim::Averaged> averaged(std::in_place, *optimizer_, ema_.get());
  auto files = trained_->files(progress_.step, dtype, *optimizer_);
  bool all_there = std::all_of(files.begin(), files.end(), [&](const auto& file) { return fs::exists(folder / file.name); });
  if (saved_step_ != progress_.step || !all_there) {
    for (auto& file : files) write(folder / file.name, file);
    averaged.reset();  // the state has both
    checkpoint::save_state(folder / "state", {*optimizer_, ema_.get()}, progress_);
    saved_step_ = progress_.step;
  }
  if (!final) return;
  for (const auto& file : files) info("saved {}", (folder / file.name).string());
}

/// Writes a file and compares what reads back.
void Run::write(const fs::path& path, const Trained::File& file) const {
  io::Metadata metadata{
      {"format", "pt"}, {"base_model", model_->variant()}, {"step", std::to_string(progress_.step)}, {"trainer", "burnish"}};
  metadata.insert(file.metadata.begin(), file.metadata.end());
  io::save_safetensors(path, file.tensors, metadata);
  auto reread = io::SafetensorsFile::open(path);
  for (const auto& [name, value] : file.tensors) {
    if (!reread->tensors().contains(name) || !at::equal(reread->tensor(name), value.cpu()))
      data_error("train", "{} does not read back as it was written ('{}')", path.string(), name);
    reread->release(name);
  }
}

void Run::train() {
  auto folder = fs::path(options_.output_path);
  auto again = options_;
  again.resume = false;  // the file starts the run anew
  config::Fields resolved;
  fields(resolved, again);
  io::write_text_atomic(folder / "config.toml", config::to_toml(resolved));
  cut_log(folder / "log.jsonl", options_.resume ? progress_.step : 0);

  double before = validation_ ? validation_loss() : 0;
  Progress bar("train", options_.max_steps, progress_.step);
  while (progress_.step < options_.max_steps) {
    auto start = std::chrono::steady_clock::now();
    auto result = step();
    auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log_step(result, seconds);
    bar.update(progress_.step,
               fmt::format("loss {:.4f}  {:.2f} samples/s", result.loss, static_cast<double>(result.num_samples) / seconds));
    if (interrupted()) {
      save(true);
      throw Error(Exit::interrupted, "train",
                  fmt::format("interrupted at step {}; everything is saved, go on with --resume", progress_.step));
    }
    if (options_.save_steps > 0 && progress_.step % options_.save_steps == 0) save(false);
  }
  save(true);
  if (validation_) {
    double after = validation_loss();
    io::write_text_atomic(folder / "validation.json", nlohmann::json{{"before", before}, {"after", after}}.dump(2) + "\n");
    fmt::print("validation loss: before {:.5f}, after {:.5f}\n", before, after);
  }
}

}  // namespace burnish::train
