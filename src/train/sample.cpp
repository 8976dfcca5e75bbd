#include "train/sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "adapters/attach.h"
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
#include "train/storage.h"

namespace burnish::train {

namespace {

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

/// [N, C, h, w]: from the file, or of seeds seed, seed + 1, ...
at::Tensor initial_noise(const SampleOptions& o, int64_t count, const std::vector<int64_t>& shape) {
  if (!o.noise.empty()) {
    auto file = io::SafetensorsFile::open(o.noise);
    if (file->tensors().empty()) data_error("sample", "the noise file {} holds no tensors", o.noise);
    auto name = file->tensors().contains("noise")     ? "noise"
                : file->tensors().contains("latents") ? "latents"
                                                      : file->tensors().begin()->first;
    auto noise = file->tensor(name).to(at::kFloat);
    if (noise.dim() == 3) noise = noise.unsqueeze(0);
    if (noise.dim() != 4 || noise.size(0) < count || noise.sizes().slice(1) != at::IntArrayRef(shape)) {
      data_error("sample", "{}: '{}' has the shape {}; {} pictures of this size need [{}, {}]", o.noise, name, noise.sizes().vec(), count,
                 count, fmt::join(shape, ", "));
    }
    return noise.narrow(0, 0, count);
  }
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(diffusion::normal_noise(RandomKey{static_cast<uint64_t>(o.model.seed + i), 0, 0, Purpose::sample}.value(), shape));
  }
  return at::stack(rows);
}

/// The values that `units` make of every prompt; each distinct prompt is encoded once.
std::map<std::string, pipeline::Values> encode(models::Model& model, const pipeline::Units& units,
                                               const std::vector<std::string>& prompts) {
  std::map<std::string, pipeline::Values> encoded;
  for (const auto& unit : units) {
    for (const auto& name : unit.models) model.load(name);
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

void merge_loras(models::Model& model, const std::vector<std::string>& loras) {
  auto& root = model.module(model.denoiser());
  for (const auto& text : loras) {
    auto [file, strength] = lora_and_strength(text);
    auto weights = read_lora(model, root, file);
    adapters::merge(root, weights, strength, file);
    info("{}: {} layers at strength {}", file, weights.size(), strength);
  }
}

/// Refuses what can be refused before anything is loaded: missing parts, LoRAs for another model, places that cannot be written.
void check_files(const SampleOptions& o, models::Model& model) {
  auto groups = model.units();
  for (const auto* group : {&groups.encode_prompt, &groups.denoise, &groups.decode}) {
    for (const auto& component : pipeline::models_of(*group)) model.check(component);
  }
  auto skeleton = o.lora.empty() ? nullptr : model.skeleton(model.denoiser());
  for (const auto& text : o.lora) read_lora(model, *skeleton, lora_and_strength(text).first);
  make_output_folder(o.output_path);
  if (auto folder = std::filesystem::path(o.save_latents).parent_path(); !folder.empty()) make_output_folder(folder);
}

struct Job {
  const SampleOptions& options;
  models::Model& model;
  pipeline::Units denoise;
  std::vector<double> sigmas;

  at::Tensor velocity(const at::Tensor& latents, double sigma, const pipeline::Values& prompt) const {
    auto values = prompt;
    values["noisy"] = latents;
    values["sigma"] = at::full({latents.size(0)}, sigma, latents.options());
    pipeline::run(denoise, values);
    return std::get<at::Tensor>(values.at("prediction")).to(at::kFloat);
  }

  /// Euler's method from pure noise; with cfg_scale other than 1 the velocity is extrapolated away from the negative prompt's.
  at::Tensor run(at::Tensor latents, const pipeline::Values& positive, const std::optional<pipeline::Values>& negative, Progress& bar,
                 int64_t done) const {
    for (size_t i = 0; i + 1 < sigmas.size(); ++i) {
      if (interrupted()) throw Error(Exit::interrupted, "sample", "interrupted; no picture was written");
      auto v = velocity(latents, sigmas[i], positive);
      if (negative) {
        auto unconditional = velocity(latents, sigmas[i], *negative);
        v = unconditional + (v - unconditional) * options.cfg_scale;
      }
      latents = latents + v * (sigmas[i + 1] - sigmas[i]);
      bar.update(done + static_cast<int64_t>(i) + 1);
    }
    return latents;
  }
};

void write_pictures(const SampleOptions& o, models::Model& model, const pipeline::Units& decode, const at::Tensor& latents,
                    const std::vector<std::string>& prompts) {
  for (const auto& name : pipeline::models_of(decode)) model.load(name);
  Progress bar("decode", latents.size(0));
  for (int64_t i = 0; i < latents.size(0); ++i) {
    pipeline::Values values{{"latents", latents.narrow(0, i, 1)}};
    pipeline::run(decode, values);
    auto pixels = data::to_pixels(std::get<at::Tensor>(values.at("image"))[0].cpu());
    std::vector<std::pair<std::string, std::string>> text{{"prompt", prompts[static_cast<size_t>(i)]},
                                                          {"negative_prompt", o.negative_prompt},
                                                          {"seed", std::to_string(o.model.seed + i)},
                                                          {"num_inference_steps", std::to_string(o.num_inference_steps)},
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
  f("num_inference_steps", o.num_inference_steps, "Euler steps");
  f("cfg_scale", o.cfg_scale, "classifier-free guidance; 1 is off");
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
  choose_storage(*model, o.model, "");
  for (const auto& component : model->components()) {
    if (component.num_stored > 0) info("{}:{}", component.name, storage_text(*model, component, o.model));
  }
  auto shape = model->latent_shape(o.height, o.width);
  auto noise = initial_noise(o, count, shape).to(model_options(o.model).device);
  check_files(o, *model);
  auto groups = model->units();

  bool guided = o.cfg_scale != 1.0;
  auto to_encode = prompts;
  if (guided) to_encode.push_back(o.negative_prompt);
  auto encoded = encode(*model, groups.encode_prompt, to_encode);
  model->load(model->denoiser());
  merge_loras(*model, o.lora);

  Job job{o, *model, groups.denoise, diffusion::sampling_sigmas(model->sampler(), o.num_inference_steps, model->num_tokens(shape))};
  Progress bar("sample", (count + o.batch_size - 1) / o.batch_size * o.num_inference_steps);
  std::vector<at::Tensor> finished;
  for (int64_t first = 0; first < count; first += o.batch_size) {
    auto size = std::min(o.batch_size, count - first);
    std::vector<std::string> some(prompts.begin() + first, prompts.begin() + first + size);
    std::optional<pipeline::Values> negative;
    if (guided) negative = stack_prompts(*model, encoded, std::vector<std::string>(static_cast<size_t>(size), o.negative_prompt));
    finished.push_back(job.run(noise.narrow(0, first, size), stack_prompts(*model, encoded, some), negative, bar,
                               first / o.batch_size * o.num_inference_steps));
  }
  model->unload(model->denoiser());
  auto latents = at::cat(finished, 0);
  if (!at::isfinite(latents).all().item<bool>()) {
    data_error("sample",
               "the latents came out not finite: the weights of the model or of a LoRA are damaged, or too large for {}; try --dtype fp32",
               o.model.dtype);
  }
  if (!o.save_latents.empty()) io::save_safetensors(o.save_latents, {{"latents", latents}});
  write_pictures(o, *model, groups.decode, latents, prompts);
  info("{} pictures in {}", count, o.output_path);
}

}  // namespace burnish::train
