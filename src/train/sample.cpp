#include "train/sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random_key.h"
#include "base/text.h"
#include "data/image.h"
#include "data/resize.h"
#include "diffusion/flow_match.h"
#include "io/files.h"
#include "train/checks.h"
#include "train/loras.h"
#include "train/storage.h"

namespace burnish::train {

namespace {

diffusion::SamplerOptions sampler_options(const SampleOptions& o) {
  return {.name = o.sampler, .timestep_spacing = o.timestep_spacing, .num_steps = o.num_inference_steps};
}

std::vector<std::string> all_prompts(const SampleOptions& o) {
  auto prompts = o.prompt;
  if (!o.prompts.empty()) {
    for (const auto& line : split_list(io::read_text(o.prompts), '\n')) prompts.push_back(line);
  }
  if (prompts.empty()) config_error("sample", "nothing to draw: give --prompt TEXT or --prompts FILE (one a line)");
  std::vector<std::string> repeated;
  for (const auto& prompt : prompts) repeated.insert(repeated.end(), static_cast<size_t>(o.num_images), prompt);
  return repeated;
}

/// Standard normal noise of every picture: [C, h, w] of the seeds seed, seed + 1, ..., or recorded.
class Noise {
 public:
  Noise(const SampleOptions& o, int64_t count, std::vector<int64_t> shape) : seed_(o.model.seed), count_(count), shape_(std::move(shape)) {
    if (!o.noise.empty()) read(o.noise, o.num_inference_steps);
  }
  /// What pictures first to first + size start from.
  at::Tensor start(int64_t first, int64_t size) const { return start_.defined() ? start_.narrow(0, first, size) : seeded(0, first, size); }
  /// What is added in a step.
  at::Tensor of_step(int64_t step, int64_t first, int64_t size) const {
    return steps_.defined() ? steps_[step].narrow(0, first, size) : seeded(step + 1, first, size);
  }

 private:
  at::Tensor seeded(int64_t draw, int64_t first, int64_t size) const {
    std::vector<at::Tensor> rows;
    for (int64_t i = first; i < first + size; ++i) {
      RandomKey key{static_cast<uint64_t>(seed_ + i), static_cast<uint64_t>(draw), 0, Purpose::sample};
      rows.push_back(diffusion::normal_noise(key.value(), shape_));
    }
    return at::stack(rows);
  }
  void read(const std::string& path, int64_t num_steps) {
    auto file = io::SafetensorsFile::open(path);
    if (file->tensors().empty()) data_error("sample", "the noise file {} holds no tensors", path);
    auto name = file->tensors().contains("noise")     ? "noise"
                : file->tensors().contains("latents") ? "latents"
                                                      : file->tensors().begin()->first;
    start_ = file->tensor(name).to(at::kFloat);
    if (start_.dim() == 3) start_ = start_.unsqueeze(0);
    auto fits = [&](const at::Tensor& t) { return t.dim() == 4 && t.size(0) >= count_ && t.sizes().slice(1) == at::IntArrayRef(shape_); };
    if (!fits(start_)) {
      data_error("sample", "{}: '{}' has the shape {}; {} pictures of this size need [{}, {}]", path, name, start_.sizes().vec(), count_,
                 count_, fmt::join(shape_, ", "));
    }
    if (!file->tensors().contains("step_noise")) return;
    steps_ = file->tensor("step_noise").to(at::kFloat);
    if (steps_.dim() != 5 || steps_.size(0) < num_steps || !fits(steps_[0])) {
      data_error("sample", "{}: 'step_noise' has the shape {}; {} pictures of this size in {} steps need [{}, {}, {}]", path,
                 steps_.sizes().vec(), count_, num_steps, num_steps, count_, fmt::join(shape_, ", "));
    }
  }

  int64_t seed_, count_;
  std::vector<int64_t> shape_;
  at::Tensor start_, steps_;
};

/// "file" or "file:0.8".
std::pair<std::string, double> lora_and_strength(const std::string& text) {
  auto colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text, 1.0};
  try {
    size_t used = 0;
    auto strength = std::stod(text.substr(colon + 1), &used);
    if (used == text.size() - colon - 1) return {text.substr(0, colon), strength};
  } catch (const std::exception&) {
  }
  return {text, 1.0};
}

/// Loads components with the adapters of the LoRA files merged into them.
class Loader {
 public:
  /// Refuses LoRAs for another model, by headers.
  Loader(models::Model& model, const std::vector<std::string>& loras) : model_(model) {
    for (const auto& text : loras) {
      auto [file, strength] = lora_and_strength(text);
      loras_.push_back({file, strength, read_lora(model, file)});
    }
  }

  void load(const std::string& name) {
    model_.load(name);
    auto component = pipeline::component_of(name);
    for (const auto& lora : loras_) {
      auto it = lora.weights.find(component);
      if (it == lora.weights.end()) continue;
      auto& root = model_.module(name);  // a part may hold some of the layers only
      std::set<std::string> paths;
      for (const auto& [path, layer] : adapters::all_layers(root)) paths.insert(path);
      std::vector<adapters::AdapterWeights> here;
      std::copy_if(it->second.begin(), it->second.end(), std::back_inserter(here), [&](const auto& w) { return paths.contains(w.path); });
      adapters::merge(root, here, lora.strength, lora.file);
      info("{}: {} layers of {} at strength {}", lora.file, here.size(), name, lora.strength);
    }
  }

 private:
  struct Lora {
    std::string file;
    double strength;
    AdaptersByComponent weights;
  };
  models::Model& model_;
  std::vector<Lora> loras_;
};

/// The values that `units` make of every prompt; each distinct prompt is encoded once.
std::map<std::string, pipeline::Values> encode(models::Model& model, Loader& loader, const pipeline::Units& units,
                                               const std::vector<std::string>& prompts) {
  std::map<std::string, pipeline::Values> encoded;
  for (const auto& unit : units) {
    for (const auto& name : unit.models) loader.load(name);
    for (const auto& prompt : prompts) {
      if (interrupted()) throw Error(Exit::interrupted, "sample", "interrupted while encoding the prompts; nothing was drawn yet");
      auto& values = encoded[prompt];
      if (values.contains(unit.writes[0])) continue;
      values["prompt"] = prompt;
      pipeline::run({unit}, values);
    }
    for (const auto& name : unit.models) model.unload(name);
  }
  return encoded;
}

pipeline::Values stack_prompts(const models::Model& model, std::map<std::string, pipeline::Values>& encoded,
                               const std::vector<std::string>& prompts) {
  pipeline::Values values;
  for (const auto& name : model.prompt_values()) {
    std::vector<at::Tensor> rows;
    for (const auto& prompt : prompts) rows.push_back(std::get<at::Tensor>(encoded.at(prompt).at(name)));
    values[name] = at::cat(rows, 0);
  }
  return values;
}

/// `positive` with the prompt values of the negative prompt in place of its own.
pipeline::Values negative_of(const models::Model& model, std::map<std::string, pipeline::Values>& encoded, const std::string& prompt,
                             const pipeline::Values& positive) {
  auto values = positive;
  bool zeros = prompt.empty() && model.zeros_for_no_prompt();
  for (const auto& name : model.prompt_values()) {
    const auto& of_positive = std::get<at::Tensor>(positive.at(name));
    values[name] = zeros ? at::zeros_like(of_positive) : std::get<at::Tensor>(encoded.at(prompt).at(name)).expand_as(of_positive);
  }
  return values;
}

/// Refuses what can be refused before anything is loaded: missing parts, places that cannot be written.
void check_files(const SampleOptions& o, models::Model& model) {
  auto groups = model.units();
  for (const auto* group : {&groups.encode_prompt, &groups.denoise, &groups.decode}) {
    for (const auto& component : pipeline::models_of(*group)) model.check(component);
  }
  make_output_folder(o.output_path);
  if (auto folder = std::filesystem::path(o.save_latents).parent_path(); !folder.empty()) make_output_folder(folder);
}

/// Values of the size that is drawn, as of a picture that was not cut.
pipeline::Values encode_size(const SampleOptions& o, const pipeline::Units& units, int64_t count, c10::Device device) {
  if (units.empty()) return {};
  auto height = static_cast<float>(o.height), width = static_cast<float>(o.width);
  auto row = at::tensor({height, width, 0.0f, 0.0f, height, width}).unsqueeze(0);
  pipeline::Values values{{"size_conditioning", row.expand({count, 6}).to(device)}};
  pipeline::run(units, values);
  return values;
}

struct Job {
  const SampleOptions& options;
  models::Model& model;
  pipeline::Units denoise;
  diffusion::SamplerOptions sampler;

  at::Tensor predict(const at::Tensor& input, double time, const pipeline::Values& conditions) const {
    auto values = conditions;
    values["noisy"] = input;
    values[model.process().time_name()] = at::full({input.size(0)}, time, input.options());
    pipeline::run(denoise, values);
    return std::get<at::Tensor>(values.at("prediction")).to(at::kFloat);
  }

  /// From noise to latents; with `negative`, predictions are extrapolated away from its own.
  at::Tensor run(const Noise& noise, int64_t first, int64_t size, const pipeline::Values& positive,
                 const std::optional<pipeline::Values>& negative, Progress& bar) const {
    auto walk = model.process().sampler(sampler);
    auto device = model_options(options.model).device;
    auto latents = walk->start(noise.start(first, size).to(device));
    for (int64_t i = 0; i < walk->num_steps(); ++i) {
      if (interrupted()) throw Error(Exit::interrupted, "sample", "interrupted; no picture was written");
      auto input = walk->model_input(latents, i);
      auto prediction = predict(input, walk->time(i), positive);
      if (negative) {
        auto unconditional = predict(input, walk->time(i), *negative);
        prediction = diffusion::guide(prediction, unconditional, options.cfg_scale, options.guidance_rescale);
      }
      latents = walk->update(latents, prediction, i, [&] { return noise.of_step(i, first, size).to(device); });
      bar.update(first / options.batch_size * walk->num_steps() + i + 1);
    }
    return latents;
  }
};

void write_pictures(const SampleOptions& o, Loader& loader, const pipeline::Units& decode, const at::Tensor& latents,
                    const std::vector<std::string>& prompts) {
  for (const auto& name : pipeline::models_of(decode)) loader.load(name);
  Progress bar("decode", latents.size(0));
  for (int64_t i = 0; i < latents.size(0); ++i) {
    pipeline::Values values{{"latents", latents.narrow(0, i, 1)}};
    pipeline::run(decode, values);
    auto pixels = data::to_pixels(std::get<at::Tensor>(values.at("image"))[0].cpu());
    std::vector<std::pair<std::string, std::string>> text{{"prompt", prompts[static_cast<size_t>(i)]},
                                                          {"negative_prompt", o.negative_prompt},
                                                          {"seed", std::to_string(o.model.seed + i)},
                                                          {"num_inference_steps", std::to_string(o.num_inference_steps)},
                                                          {"sampler", o.sampler},
                                                          {"cfg_scale", fmt::format("{}", o.cfg_scale)},
                                                          {"embedded_guidance", fmt::format("{}", o.model.embedded_guidance)},
                                                          {"model", join(o.model.model)},
                                                          {"lora", join(o.lora)}};
    data::write_png(std::filesystem::path(o.output_path) / fmt::format("{:04}.png", i), pixels, text);
    bar.update(i + 1);
  }
}

}  // namespace

void fields(config::Fields& f, SampleOptions& o) {
  fields(f, o.model);
  f.group("Picture");
  f("prompt", o.prompt, "what to draw; may be given several times");
  f("prompts", o.prompts, "file with one prompt a line");
  f("negative_prompt", o.negative_prompt, "what to steer away from, with cfg_scale above 1");
  f("lora", o.lora, "LoRA file, or file:strength; may be given several times");
  f("height", o.height, "pixels");
  f("width", o.width, "pixels");
  f("num_inference_steps", o.num_inference_steps, "steps of the sampler");
  f("sampler", o.sampler, "euler, or for models with discrete timesteps also euler_a, dpmpp_2m or ddim; default takes the model's own");
  f("timestep_spacing", o.timestep_spacing, "where discrete steps lie: leading, trailing or linspace; default takes the model's own");
  f("cfg_scale", o.cfg_scale, "classifier-free guidance; 1 is off");
  f("guidance_rescale", o.guidance_rescale, "share by which guided predictions are brought back to their deviation without guidance");
  f("num_images", o.num_images, "pictures of each prompt");
  f("batch_size", o.batch_size, "pictures computed at once");
  f.group("Files");
  f("output_path", o.output_path, "folder for 0000.png, 0001.png, ...");
  f("noise", o.noise, "safetensors with the initial noise [N, C, h, w] instead of seeds");
  f("save_latents", o.save_latents, "also write the final latents to this safetensors file");
}

void check(const SampleOptions& o) {
  auto copy = o;
  config::Fields listed;
  fields(listed, copy);
  check_finite(listed);
  check(o.model);
  auto positive = [](const char* name, int64_t value) { check_at_least(name, static_cast<double>(value), 1); };
  positive("height", o.height);
  positive("width", o.width);
  positive("num_inference_steps", o.num_inference_steps);
  positive("num_images", o.num_images);
  positive("batch_size", o.batch_size);
  diffusion::check(sampler_options(o));
  if (o.guidance_rescale < 0 || o.guidance_rescale > 1)
    config_error("sample", "guidance_rescale must be from 0 to 1, not {}", o.guidance_rescale);
  for (const auto& text : o.lora) {
    if (!std::isfinite(lora_and_strength(text).second)) config_error("sample", "the strength of the LoRA {} must be a finite number", text);
  }
}

void sample(const SampleOptions& o) {
  check(o);
  auto prompts = all_prompts(o);
  auto count = std::ssize(prompts);
  set_threads(o.model);
  at::NoGradGuard no_grad;
  auto model = models::open_model(models::open_model_files({o.model.model, o.model.model_paths, o.model.model_id_with_origin_paths}),
                                  model_options(o.model));
  choose_storage(*model, o.model);
  for (const auto& component : model->components()) {
    if (component.num_stored > 0) info("{}:{}", component.name, storage_text(*model, component, o.model));
  }
  auto shape = model->latent_shape(o.height, o.width);
  Noise noise(o, count, shape);
  auto sampler = sampler_options(o);
  sampler.num_image_tokens = model->num_tokens(shape);
  model->process().sampler(sampler);  // refuses what does not fit the model
  check_files(o, *model);
  Loader loader(*model, o.lora);
  auto groups = model->units();

  bool guided = o.cfg_scale != 1.0;
  auto to_encode = prompts;
  if (guided) to_encode.push_back(o.negative_prompt);
  auto encoded = encode(*model, loader, groups.encode_prompt, to_encode);
  loader.load(model->denoiser());

  Job job{o, *model, groups.denoise, sampler};
  Progress bar("sample", (count + o.batch_size - 1) / o.batch_size * o.num_inference_steps);
  std::vector<at::Tensor> finished;
  for (int64_t first = 0; first < count; first += o.batch_size) {
    auto size = std::min(o.batch_size, count - first);
    std::vector<std::string> some(prompts.begin() + first, prompts.begin() + first + size);
    auto positive = stack_prompts(*model, encoded, some);
    auto of_size = encode_size(o, groups.encode_size, size, model_options(o.model).device);
    positive.insert(of_size.begin(), of_size.end());
    std::optional<pipeline::Values> negative;
    if (guided) negative = negative_of(*model, encoded, o.negative_prompt, positive);
    finished.push_back(job.run(noise, first, size, positive, negative, bar));
  }
  model->unload(model->denoiser());
  auto latents = at::cat(finished, 0);
  if (!at::isfinite(latents).all().item<bool>()) {
    data_error("sample",
               "the latents came out not finite: the weights of the model or of a LoRA are damaged, or too large for {}; try --dtype fp32",
               o.model.dtype);
  }
  if (!o.save_latents.empty()) io::save_safetensors(o.save_latents, {{"latents", latents}});
  write_pictures(o, loader, groups.decode, latents, prompts);
  info("{} pictures in {}", count, o.output_path);
}

}  // namespace burnish::train
