#include "app/sample_options.h"

#include <fmt/core.h>

#include <cmath>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/number.h"
#include "config/everyday_words.h"
#include "config/problems.h"
#include "data/drawn_file.h"
#include "diffusion/process.h"
#include "drawing/picture.h"
#include "loras/merged.h"
#include "models/registry.h"

namespace burnish::app {

namespace {

constexpr double kLeastFrameRate = 0.1;
constexpr double kMostFrameRate = 1000;  // at which a frame lasts a millisecond, the unit of files

void add_words_and_weights(config::Fields& f, SampleOptions& o) {
  f("prompt", o.prompt, "what to draw; may be given several times").level(config::Level::first_run);
  f.path(
      "prompts", o.prompts,
      "file with one prompt a line, and flags for it behind it: --w 512 --h 512 --f 81 --d 42 --s 20 --l 7.5 --n negative prompt --am 0.5 "
      "--ci picture.png");
  f.path("reference", o.reference, "reference picture that the model is to see, for models that read some; may be given several times");
  f("negative_prompt", o.negative_prompt, "what to steer away from, with cfg_scale above 1").called(config::kNegative);
  f.path("lora", o.lora,
         "LoRA file, file:strength, or file:strength:layers, as style.safetensors:0.8:.*attn.*=0; may be given several times")
      .called(config::kLora);
  f("lora_strengths", o.lora_strengths,
    "comma list of factors on the strengths of the LoRAs, as -2,-1,0,1,2 for a slider: all pictures are drawn at each, from equal noise");
  f("without_blocks", o.without_blocks,
    "draw all pictures once more without each of so many groups of the LoRA's blocks, and say how much they differ; 0: none")
      .at_least(0)
      .at_most(1000)
      .in("groups");
  f.path("embedding", o.embedding,
         "file with the vectors of a word of prompts (textual inversion), or file:word to call it otherwise; may be given several times");
}

void add_extent(config::Fields& f, SampleOptions& o) {
  f("height", o.extent.height, "height of the pictures in pixels").at_least(1).at_most(kMostPixelsASide).in("pixels").called(config::kSize);
  f("width", o.extent.width, "width of the pictures in pixels").at_least(1).at_most(kMostPixelsASide).in("pixels");
  f("num_frames", o.extent.frames, "frames of a clip, for models that make clips; 1 makes a picture")
      .at_least(1)
      .at_most(drawing::kMostFrames)
      .in("frames");
  f("frame_rate", o.frame_rate, "frames a second at which clips play; 0: as many as the model was made with")
      .at_least(0)
      .at_most(kMostFrameRate);
}

void add_walk(config::Fields& f, SampleOptions& o) {
  f("num_inference_steps", o.num_inference_steps, "more take longer")
      .label("Sampler steps")
      .at_least(1)
      .at_most(kMostSamplerSteps)
      .in("steps")
      .called(config::kSteps);
  f("sampler", o.sampler,
    "euler, for models that flow also unipc or lcm, for models with discrete timesteps euler_a, dpmpp_2m or ddim; default takes the "
    "model's "
    "own")
      .known(diffusion::sampler_names());
  f("timestep_spacing", o.timestep_spacing, "where discrete steps lie: leading, trailing or linspace; default takes the model's own")
      .known(diffusion::spacing_names());
  f("sigmas", o.sigmas,
    "comma list of the shares of noise at which steps begin, and 0 behind them, for models that flow; \"\": those that a LoRA of few steps "
    "names, or the model's own");
  f("cfg_scale", o.cfg_scale, "classifier-free guidance; 1 is off").label("Guidance").called(config::kGuidance);
  f("guidance_rescale", o.guidance_rescale, "share by which guided predictions are brought back to their deviation without guidance")
      .at_least(0)
      .at_most(1);
  f("num_images", o.num_images, "with seeds that follow each other").label("Pictures of each prompt").at_least(1).at_most(kMostPictures);
  f("batch_size", o.batch_size, "pictures computed at once")
      .label("Pictures at once")
      .at_least(1)
      .at_most(kMostPictures)
      .called(config::kBatch);
}

void add_memory(config::Fields& f, SampleOptions& o) {
  f.group("Memory");
  f("blocks_to_swap", o.blocks_to_swap,
    "blocks of the denoiser whose weights wait in main memory and come to the device as they are needed")
      .label("Blocks kept in system memory")
      .at_least(0)
      .at_most(kMostBlocksNamed);
  f("blocks_on_disk", o.blocks_on_disk, "of blocks_to_swap, so many wait in the model's file instead")
      .at_least(0)
      .at_most(kMostBlocksNamed);
}

void add_extra_inputs(config::Fields& f, SampleOptions& o) {
  f.group("Extra inputs");
  for (const auto& input : models::extra_inputs()) {
    if (input.given == Column::Given::by_rows) continue;
    const auto& column = input.name;
    auto help = input.is == Column::Is::clip
                    ? fmt::format("clip for {}, at least as long as what is drawn", input.words.needs)
                    : fmt::format("{} for {}; a list: several times", input.names_files() ? "file" : "value", input.words.needs);
    if (input.names_files()) f.path(column, o.inputs[column], help);
    else f(column, o.inputs[column], help);
  }
}

void add_files(config::Fields& f, SampleOptions& o) {
  f.group("Files");
  f.path("output_path", o.output_path, "folder for 0000.png, 0001.png, ...; for clips 0000.webp, ...")
      .level(config::Level::first_run)
      .called(config::kOutput);
  f("format", o.format,
    "png (of a clip a folder of frames), webp (of a clip animated), and of clips mp4 or webm; default takes png for pictures, webp for "
    "clips and mp4 for clips that sound")
      .one_of(data::kFormats);
  f.path("noise", o.noise, "safetensors with the initial noise [N, C, h, w], of clips [N, C, F, h, w], instead of seeds");
  f.path("save_latents", o.save_latents, "also write the final latents to this safetensors file");
}

}  // namespace

void fields(config::Fields& f, SampleOptions& o) {
  train::fields(f, o.model);
  f.path("run", o.run, "folder of a training run: its model, its size, and the weights it saved; options that are given win");
  f.group("Picture");
  add_words_and_weights(f, o);
  add_extent(f, o);
  add_walk(f, o);
  add_memory(f, o);
  add_extra_inputs(f, o);
  add_files(f, o);
  for (const char* name : {"model", "dtype", "seed", "run", "lora", "negative_prompt", "height", "width", "num_inference_steps",
                           "cfg_scale", "num_images", "blocks_to_swap"})
    f.row(name).level(config::Level::first_run);
}

std::vector<double> strengths_of(const SampleOptions& o) {
  if (o.lora_strengths.empty()) return {1};
  const auto factors = parse_numbers<double>(o.lora_strengths);
  if (!factors || factors->empty())
    config_error("sample", "lora_strengths '{}' must be a comma list of numbers, as -1,0,1", o.lora_strengths);
  return *factors;
}

std::vector<double> times_of(const SampleOptions& o) {
  if (o.sigmas.empty()) return {};
  const auto times = parse_numbers<double>(o.sigmas);
  if (!times || !diffusion::falls_to_zero(*times))
    config_error("sample", "sigmas must fall from at most 1 to 0, as 0.999,0.75,0.5,0.25,0, and '{}' does not", o.sigmas);
  return *times;
}

void check(const SampleOptions& o) {
  auto copy = o;
  config::Fields listed;
  fields(listed, copy);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.model); });
  if (o.blocks_on_disk > o.blocks_to_swap)
    problems.add("blocks_on_disk {} is more than blocks_to_swap {}, of which they are; raise blocks_to_swap", o.blocks_on_disk,
                 o.blocks_to_swap);
  if (o.frame_rate > 0 && o.frame_rate < kLeastFrameRate)
    problems.add("frame_rate must be at least {}, or 0 for the model's, and is {}", kLeastFrameRate, o.frame_rate);
  problems.gather(
      [&] { diffusion::check({.name = o.sampler, .timestep_spacing = o.timestep_spacing, .num_steps = o.num_inference_steps}); });
  problems.gather([&] { times_of(o); });
  for (const auto& text : o.lora) {
    if (!std::isfinite(loras::parse_lora_file(text).strength)) problems.add("the strength of the LoRA {} must be a finite number", text);
  }
  problems.gather([&] { strengths_of(o); });
  if (!o.lora_strengths.empty() && o.lora.empty() && o.run.empty())
    problems.add("lora_strengths draws with LoRAs at several strengths, and there are none; name one with --lora");
  if (o.without_blocks > 0 && o.run.empty() && o.lora.size() != 1)
    problems.add("without_blocks leaves blocks of one LoRA out, and there are {}; name one with --lora", o.lora.size());
  if (o.without_blocks > 0 && !o.lora_strengths.empty())
    problems.add("without_blocks and lora_strengths both draw all pictures several times; take one out");
  problems.refuse("sample");
}

}  // namespace burnish::app
