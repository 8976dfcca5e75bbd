#pragma once
#include <map>

#include "train/options/train_options.h"

namespace burnish::app {

/// Everything `burnish sample` can be told.
struct SampleOptions {
  train::ModelChoice model;
  std::string run;
  std::vector<std::string> prompt;
  std::string prompts, negative_prompt;
  std::vector<std::string> lora, embedding, reference;
  std::string lora_strengths;
  int64_t without_blocks = 0;                              ///< groups of blocks of the LoRA that are left out in turn
  std::map<std::string, std::vector<std::string>> inputs;  ///< see drawing::Picture
  Extent extent = {.height = 1024, .width = 1024};
  int64_t num_inference_steps = 28, num_images = 1, batch_size = 1;
  double cfg_scale = 1.0, guidance_rescale = 0;
  int64_t blocks_to_swap = 0, blocks_on_disk = 0;
  std::string sampler = "default", timestep_spacing = "default", sigmas;
  double frame_rate = 0, frame_rate_of_run = 0;  ///< 0: the model's
  std::string output_path = "./samples", format = "default", noise, save_latents;
};
void fields(config::Fields& f, SampleOptions& o);

/// Takes model, precision and size from the config.toml of the training run in `o.run`, and the weights that it saved: the best where it
/// kept them, else the last. A data Error when the folder holds no run, or nothing saved.
void take_run(SampleOptions& o);

/// Reads lora_strengths; {1} where it is empty. A config Error for what is no list of numbers.
std::vector<double> strengths_of(const SampleOptions& o);

/// Takes the sampler and its times from the files of LoRAs and models that say how they are to be drawn with, unless steps, sampler or
/// times are among the `given` options.
void take_times(SampleOptions& o, const std::vector<std::string>& given);

/// Returns the times of `o.sigmas`; none where it is "". A config Error for a list that does not fall from at most 1 to 0.
std::vector<double> times_of(const SampleOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened.
void check(const SampleOptions& o);

}  // namespace burnish::app
