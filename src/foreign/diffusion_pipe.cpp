#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/h3.h"
#include "foreign/ltx.h"
#include "foreign/program.h"
#include "foreign/row_files.h"

// Names and defaults: examples/main_example.toml, examples/dataset.toml, docs/supported_models.md and train.py of diffusion-pipe.
namespace burnish::foreign {

namespace of_diffusion_pipe {
namespace {

const std::map<std::string, std::string> kOptimizers{{"adamw", "adamw"},         {"adamw_optimi", "adamw"},
                                                     {"adamw8bit", "adamw8bit"}, {"adamw8bitkahan", "adamw8bit"},
                                                     {"automagic", "automagic"}, {"prodigy", "prodigy"},
                                                     {"lion", "lion"},           {"adafactor", "adafactor"},
                                                     {"came", "came"},           {"schedulefreeadamw", "adamw_schedulefree"}};

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("optimizer.type")));
  return it == kOptimizers.end() ? "" : it->second;
}

bool has_unet(const Settings& all) { return all.text("model.type") == "sdxl"; }
bool is_h3(const Settings& all) { return all.text("model.type") == "minimax_h3"; }
bool is_ltx(const Settings& all) { return all.text("model.type") == "ltx2"; }
bool has_adapter(const Settings& all) { return all.has("adapter.type"); }

/// The longest of the lengths that clips are brought to; 1 where all are pictures.
double longest_bucket(const Settings& all) {
  const auto* buckets = all.find("dataset.frame_buckets");
  double longest = 1;
  if (buckets == nullptr) return longest;
  for (const auto& item : buckets->is_array() ? *buckets : Value::array({*buckets}))
    longest = std::max(longest, number_of(item).value_or(0));
  return longest;
}
bool has_clips(const Settings& all) { return longest_bucket(all) > 1; }

/// Tells whether a conditioner lies between text encoder and denoiser, which trains unless its rate is 0.
bool is_conditioned(const Settings& all) { return all.text("model.type") == "anima"; }

/// The text encoders of SDXL train with its UNet; of the others the denoiser alone, and a conditioner.
std::string trained_parts(const Settings& all) {
  if (is_conditioned(all) && all.number("model.llm_adapter_lr") != 0.0) return "dit,text_conditioner";
  return has_unet(all) ? "unet,text_encoder,text_encoder_2" : "dit";
}

std::string bits(const std::string& text) {
  auto word = lower(text);
  return word == "bfloat16" ? "bf16" : word == "float16" ? "fp16" : word == "float32" ? "fp32" : "";
}

Outcome dtype(const Value& value, const Settings& all) { return dtype_of_run(bits(text_of(value)), !has_unet(all) || !has_adapter(all)); }

Outcome precision(const Value& value, const Settings&) {
  auto word = bits(text_of(value));
  return word.empty() ? left_out("a dtype is bf16, fp16 or fp32") : carried(word);
}

Outcome fp8_denoiser(const Value& value, const Settings& all) {
  auto word = lower(text_of(value));
  if (!word.starts_with("float8")) return left_out(bits(word) == bits(all.text("model.dtype")) ? "" : "the model has one dtype");
  return carried(has_unet(all) ? "unet" : "dit", "weights get a scale for each row here; weight_format fp8_plain is the cast without one");
}

/// The shift of pictures is one of its own for MiniMax-H3.
Value shift_of(const Settings& all) {
  const auto* of_pictures = is_h3(all) && !has_clips(all) ? all.find("model.image_shift") : nullptr;
  const auto* shift = of_pictures == nullptr ? all.find("model.shift") : of_pictures;
  return shift == nullptr ? Value() : *shift;
}

Outcome sampling(const Value& value, const Settings& all) {
  if (has_unet(all)) return left_out("");
  const bool is_shifted = asks_for_something(shift_of(all)), is_even = text_of(value) == "uniform";
  if (all.on("model.flux_shift") && !(is_h3(all) && is_shifted)) return carried("flux_shift");
  return carried(is_shifted ? is_even ? "sigma" : "shift" : is_even ? "uniform" : "sigmoid");
}

/// Carries a list of paths, or of objects that have one.
Outcome paths(const Value& value, const Settings&) {
  auto list = Value::array();
  for (const auto& item : value.is_array() ? value : Value::array({value})) {
    const auto& path = item.is_object() ? item.value("path", Value()) : item;
    if (!path.is_string()) return left_out("expected a list of paths");
    list.push_back(path);
  }
  return carried(list);
}

Outcome fused(const Value& value, const Settings&) {
  auto list = Value::array();
  for (const auto& item : value) {
    if (!item.is_object() || !item.contains("path")) return left_out("expected a list of {path, weight}");
    list.push_back(text_of(item["path"]) + (item.contains("weight") ? ":" + text_of(item["weight"]) : ""));
  }
  return carried(list);
}

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  if (tree.contains("directory") && tree["directory"].is_array()) return true;
  return tree.contains("model") && tree["model"].is_object() && tree["model"].contains("type") && tree.contains("optimizer");
}

void merge_directories(const Value& file, Arranged& arranged) {
  std::vector<Dataset> directories;
  for (size_t i = 0; i < file["directory"].size(); ++i) {
    auto merged = file;
    merged.erase("directory");
    merged.update(file["directory"][i]);
    directories.push_back({"directory[" + std::to_string(i) + "].path", merged});
  }
  arranged.tree["dataset"] = first_of(directories, arranged);
  arranged.dataset_key = "dataset";
}

Arranged arrange(Value tree, const Open& open) {
  if (tree.contains("directory")) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    merge_directories(tree, arranged);
    return arranged;
  }
  Arranged arranged{.tree = tree};
  if (tree.contains("dataset") && tree["dataset"].is_string()) {
    auto file = open(tree["dataset"].get<std::string>());
    if (file.is_object() && file.contains("directory")) merge_directories(file, arranged);
  }
  return arranged;
}

/// Rates of SDXL's text encoders, each of which takes the optimizer's where it has none of its own, not unet_lr.
Outcome encoder_rates(const Value&, const Settings& all) {
  bool differs = all.has("model.unet_lr");
  std::vector<std::string> rates;
  for (const auto& [name, part] :
       {std::pair{"model.text_encoder_1_lr", "text_encoder"}, std::pair{"model.text_encoder_2_lr", "text_encoder_2"}}) {
    differs = differs || all.has(name);
    auto rate = all.text(name, all.text("optimizer.lr", ""));
    if (!rate.empty()) rates.push_back(std::string(part) + "=" + rate);
  }
  return has_unet(all) && differs && !rates.empty() ? carried(join(rates, ",")) : left_out("");
}

bool makes_clips(const Settings& all) { return all.text("model.type") == "wan" || is_h3(all) || is_ltx(all); }

/// The columns of frames that a model of this name goes on from.
std::string frames_in(const std::string& name) {
  if (name.find("flf2v") != name.npos) return "input_image,end_image";
  return name.find("i2v") != name.npos && name.find("ti2v") == name.npos ? "input_image" : "";
}

/// The columns of frames that a model of Wan's goes on from, as its path says: once, by the first path that does.
Convert frames_said_by(const std::string& name) {
  return [name](const Value& value, const Settings& all) {
    const auto path = lower(text_of(value));
    const bool is_said_before = name != "model.ckpt_path" && !frames_in(lower(all.text("model.ckpt_path"))).empty();
    const auto frames = frames_in(path);
    return makes_clips(all) && !is_said_before && !frames.empty() ? carried(frames) : left_out("");
  };
}

/// Tells whether the sound of clips is learned, for which its autoencoder is named.
bool hears(const Settings& all) { return is_h3(all) && has_clips(all) && all.has("model.audio_vae"); }

/// The rows of MiniMax-H3, whose pictures have no sound beside them, and a shift of their own.
std::vector<SettingRow> h3_rows() {
  return {rewritten("model.type", "sound_of_stills",
                    [](const Value&, const Settings& all) { return is_h3(all) && !hears(all) ? carried("none") : left_out(""); }),
          rewritten("model.shift", "discrete_flow_shift",
                    [](const Value& value, const Settings& all) { return shift_of(all) == value ? carried(value) : left_out(""); }),
          rewritten("model.image_shift", "discrete_flow_shift",
                    [](const Value& value, const Settings& all) {
                      if (!is_h3(all) || !asks_for_something(value)) return left_out("");
                      return has_clips(all) ? left_out("pictures and clips have one shift; train the pictures in a run of their own")
                                            : carried(value);
                    }),
          rewritten("model.audio_vae", "model",
                    [](const Value& value, const Settings& all) { return hears(all) ? carried(value) : left_out(""); }),
          rewritten("model.audio_vae", "extra_inputs", [](const Value&, const Settings& all) {
            return hears(all) ? carried(with_sound(""),
                                        "frames and sound have a mean each, and are one mean there; sound_loss_weight weighs the sound")
                              : left_out("");
          })};
}

void model_rows(Table& table) {
  table << rewritten("model.transformer_path", "experts", [](const Value& value, const Settings& all) {
    const auto path = lower(text_of(value));
    if (!makes_clips(all)) return left_out("");
    return path.find("low_noise") != path.npos    ? carried("low_noise")
           : path.find("high_noise") != path.npos ? carried("high_noise")
                                                  : left_out("");
  });
  for (const char* name : {"model.ckpt_path", "model.transformer_path"}) table << rewritten(name, "extra_inputs", frames_said_by(name));
  table << kind_row("model.type",
                    {"sdxl", "flux", "flux2", "qwen_image", "z_image", "chroma", "sd3", "anima", "wan", "minimax_h3", "ltx2"});
  table << rewritten("model.text_encoders", "model", paths) << rewritten("model.merge_adapters", "preset_lora_path", paths);
  table << rewritten("model.dtype", "dtype", dtype);
  for (const char* name : {"model.transformer_dtype", "model.diffusion_model_dtype"}) table << rewritten(name, "fp8_models", fp8_denoiser);
  table << h3_rows();
  table << rewritten("model.timestep_sample_method", "timestep_sampling", sampling, "logit_normal");
  table << rewritten(
      "model.debiased_estimation_loss", "loss_weighting",
      [](const Value& value, const Settings& all) { return carried(asks_for_something(value) && has_unet(all) ? "debiased" : "uniform"); },
      false);
  table << rewritten("model.unet_lr", "learning_rate", of_optimizer(optimizer_of, same_value));
  for (const char* name : {"model.unet_lr", "model.text_encoder_1_lr", "model.text_encoder_2_lr"})
    table << rewritten(name, "text_encoder_lr", of_optimizer(optimizer_of, encoder_rates));
  table << rewritten(
      "model.guidance", "embedded_guidance",
      [](const Value& value, const Settings& all) { return all.text("model.type") == "flux" ? carried(value) : left_out(""); }, 1.0);
  table << rewritten("model.llm_adapter_lr", "", [](const Value& value, const Settings& all) {
    bool differs = number_of(value) != 0.0 && number_of(value) != all.number("optimizer.lr");
    return left_out(differs ? "write it for our layer paths in lr_groups" : "");
  });
}

void adapter_rows(Table& table) {
  table << rewritten("adapter.type", "lora_format", [](const Value&, const Settings& all) {
    return all.has("adapter.init_from_existing") ? left_out("") : carried(has_unet(all) ? "kohya" : "diffusers");
  });
  // All linear layers of its blocks and of the conditioner's.
  table << rewritten("adapter.type", "lora_target_modules", [](const Value&, const Settings& all) {
    if (is_h3(all)) return carried(kBlocksAndTextOfH3);
    if (is_ltx(all)) return carried(kFramesOfLtx, "no tokens of sound stand beside the frames there, and here noise does");
    if (all.text("model.type") == "sd3") return carried("transformer_blocks\\..*");
    return is_conditioned(all) ? carried("(transformer_)?blocks\\..*") : left_out("");
  });
  table << rewritten("adapter.type", "lora_base_model", [](const Value&, const Settings& all) { return carried(trained_parts(all)); });
  table << rewritten("model.type", "trainable_models",
                     [](const Value&, const Settings& all) { return has_adapter(all) ? left_out("") : carried(trained_parts(all)); });
  table << rewritten("adapter.rank", "lora_rank", [](const Value& value, const Settings& all) {
    if (all.has("adapter.init_from_existing")) return left_out("the file of init_from_existing decides it");
    bool whole = all.text("adapter.type") == "lokr" && number_of(value).value_or(0) > 65536;  // LoKr's second factor is whole
    return carried(whole ? Value(int64_t{1000000}) : value);
  });
  table << rewritten("adapter.decompose_factor", "lokr_factor", [](const Value& value, const Settings& all) {
             return all.text("adapter.type") == "lokr" ? carried(value) : left_out("");
           }).otherwise(-1);
  table << rewritten("adapter.fuse_adapters", "preset_lora_path", fused);
  table << rewritten("adapter.dtype", "save_dtype", precision);
}

/// torch's and bitsandbytes' AdamW decay by 0.01, the others by nothing.
Outcome weight_decay(const Value& value, const Settings& all) {
  auto theirs = lower(all.text("optimizer.type"));
  if (all.has("optimizer.weight_decay")) return of_optimizer(optimizer_of, same_value)(value, all);
  bool decays = theirs == "adamw" || theirs.starts_with("adamw8bit") || optimizer_of(all).empty();
  return decays ? left_out("") : carried(0.0);
}

void optimizer_rows(Table& table) {
  table << rewritten("optimizer.type", "optimizer", [](const Value& value, const Settings& all) {
    auto name = optimizer_of(all);
    if (name.empty()) return left_out(kNoOptimizer);
    bool compensated = lower(text_of(value)).ends_with("kahan") || text_of(value) == "adamw_optimi";
    if (name == "automagic") return carried(name, kThirdAutomagic);
    return carried(name, compensated ? "trained_weights says how weights are rounded, in place of Kahan sums" : "");
  });
  table << rewritten("optimizer.lr", "learning_rate", of_optimizer(optimizer_of, [](const Value& value, const Settings& all) {
                       return all.has("model.unet_lr") ? left_out("") : carried(value);
                     }));
  table << rewritten("optimizer.lr", "text_encoder_lr", [](const Value& value, const Settings& all) {
    return all.has("model.unet_lr") && !optimizer_of(all).empty() ? encoder_rates(value, all) : left_out("");
  });
  table << rewritten("optimizer.weight_decay", "weight_decay", weight_decay, 0.0);
  table << rewritten("optimizer.type", "optimizer_args",
                     [](const Value&, const Settings& all) { return optimizer_numbers(optimizer_of(all), "optimizer.", all); });
  table << optimizer_number_rows("optimizer.", optimizer_of);
}

/// A clip goes to the longest of its lengths that it has; here a shorter clip has as many frames as the model takes of it.
Outcome frame_buckets(const Value& value, const Settings& all) {
  if (!makes_clips(all)) return left_out("");
  std::vector<double> lengths;
  for (const auto& item : value.is_array() ? value : Value::array({value})) lengths.push_back(number_of(item).value_or(0));
  const auto longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  if (longest < 1) return left_out("is no list of numbers of frames");
  if (is_ltx(all)) return carried_frames_of_ltx(longest);
  if (is_h3(all) && longest > 1) {
    // It encodes whole chunks of 17 frames, of whose latents the last three are left out.
    const auto frames = static_cast<int64_t>(std::ceil(longest / 17) - 1) * 17 + 5;
    return carried(frames, "as many frames as the latents of the longest clips there stand for");
  }
  const bool has_others = std::ranges::any_of(lengths, [&](double length) { return length > 1 && length < longest; });
  return carried(static_cast<int64_t>(longest),
                 has_others ? "a clip that is shorter has as many frames as it holds, not the next of these numbers" : "");
}

Outcome clip_mode(const Value& value, const Settings& all) {
  if (!makes_clips(all)) return left_out("");
  auto mode = lower(text_of(value));
  if (mode == "multiple_overlapping") return carried("chunks", "clips of a file lie one behind the other here, without an overlap");
  if (mode != "single_beginning" && mode != "single_middle") return left_out("no such way to take frames out of a clip");
  return carried(mode == "single_middle" ? "middle" : "head");
}

void data_rows(Table& table) {
  table << rewritten("dataset.resolutions", "resolution", [](const Value& value, const Settings&) {
    auto sizes = Value::array();
    for (const auto& item : value.is_array() ? value : Value::array({value})) {
      auto sides = sides_of(item);
      if (sides.empty()) return left_out("is no list of sizes");
      sizes.push_back(std::to_string(sides[0]) + "," + std::to_string(sides[1]));
    }
    return carried(sizes);
  });
  auto if_on = [](Value ours, std::string note = "") {
    return [ours, note](const Value& value, const Settings&) { return asks_for_something(value) ? carried(ours, note) : left_out(""); };
  };
  table << rewritten("dataset.enable_ar_bucket", "enable_bucket", if_on(true, "the shapes are OneTrainer's, from 1:4 to 4:1"))
        << rewritten("dataset.enable_ar_bucket", "bucket_rule", if_on("onetrainer"))
        << rewritten("dataset.enable_ar_bucket", "bucket_no_upscale", if_on(false));
  table << rewritten("dataset.shuffle_tags", "shuffle_caption", if_on(true))
        << rewritten("dataset.cache_shuffle_num", "shuffle_caption", if_on(true, "in another order at each visit, not in one of so many"));
  table << rewritten("dataset.cache_shuffle_delimiter", "caption_separator", [](const Value& value, const Settings& all) {
    auto delimiter = std::string(trim(text_of(value)));
    return all.on("dataset.cache_shuffle_num") && !delimiter.empty() ? carried(delimiter) : left_out("");
  });
  auto of_buckets = [](const std::string& why) {
    return [why](const Value&, const Settings& all) { return left_out(all.on("dataset.enable_ar_bucket") ? why : ""); };
  };
  for (const char* name : {"dataset.min_ar", "dataset.max_ar", "dataset.num_ar_buckets", "dataset.ar_buckets"})
    table << rewritten(name, "", of_buckets("shapes are those of bucket_rule, from 1:4 to 4:1"));
  table << rewritten("dataset.frame_buckets", "num_frames", frame_buckets);
}

/// torch's rise, from a step's share on; where it meets a curve, that has its whole length still before it there.
Outcome warmup(const Value& value, const Settings& all) {
  auto steps = number_of(value).value_or(0);
  auto curve = lower(all.text("lr_scheduler", "constant")) != "constant";
  return carried(value, steps > 0 && curve
                            ? "the curve begins behind the warm-up there and is cut off at the end of the run; here it ends with it"
                            : "");
}

/// Carries a schedule: curves of diffusion-pipe go by all epochs, also where max_steps ends the run before.
Outcome schedule(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{{"constant", "constant"}, {"linear", "linear"}, {"cosine", "cosine"}};
  auto it = kSchedules.find(lower(text_of(value)));
  if (it == kSchedules.end()) return left_out("no such schedule: the rate stays constant");
  bool is_cut = it->first != "constant" && all.has("max_steps");
  return carried(it->second, is_cut ? "ends with max_steps here, with all epochs there" : "");
}

constexpr const char* kNotCut = "a model is not cut into stages: each of several processes (burnish launch -n 2 -- train) runs all of it";

void run_rows(Table& table) {
  table << rewritten("epochs", "num_epochs", [](const Value& value, const Settings& all) {
    return all.has("max_steps") ? left_out("max_steps takes its place") : carried(value);
  });
  table << rewritten("micro_batch_size_per_gpu", "batch_size", [](const Value& value, const Settings&) {
             return value.is_array() ? left_out("batches of every size have as many samples") : carried(value);
           }).otherwise(1);
  table << rewritten("warmup_steps", "lr_warmup_steps", warmup, 0);
  table << rewritten("lr_scheduler", "lr_scheduler", schedule, "constant");
  table << rewritten("lr_scheduler", "lr_scheduler_min_lr_ratio", [](const Value& value, const Settings& all) {
    auto rate = all.number("model.unet_lr").value_or(all.number("optimizer.lr").value_or(0));
    return lower(text_of(value)) == "cosine" && rate > 1e-6 ? carried(1e-6 / rate) : left_out("");
  });
  table << rewritten("activation_checkpointing", "use_gradient_checkpointing", [](const Value& value, const Settings&) {
             return carried(asks_for_something(value));
           }).otherwise(false);
  table << rewritten("activation_checkpointing", "use_gradient_checkpointing_offload",
                     [](const Value& value, const Settings&) { return text_of(value) == "unsloth" ? carried(true) : left_out(""); });
  table << rewritten("pseudo_huber_c", "loss_type",
                     [](const Value&, const Settings&) { return carried("huber", "losses are 2c times as large here"); });
  table << rewritten("pseudo_huber_c", "huber_schedule", [](const Value&, const Settings&) { return carried("constant"); });
  table << rewritten("save_dtype", "save_dtype", precision);
  table << rewritten("checkpoint_every_n_minutes", "save_minutes",
                     [](const Value& value, const Settings&) { return carried(value, "a save holds state and weights"); });
  auto more_than_one = [](const Value& value, const Settings&) { return left_out(number_of(value).value_or(1) > 1 ? kNotCut : ""); };
  table << rewritten("pipeline_stages", "", more_than_one, 1);
  table << rewritten("video_clip_mode", "frame_extraction", clip_mode);
}

Table table() {
  Table table;
  table << rows_in("diffusion_pipe", {{"unet", has_unet}});
  model_rows(table);
  adapter_rows(table);
  optimizer_rows(table);
  data_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_diffusion_pipe

Program diffusion_pipe() {
  using namespace of_diffusion_pipe;
  return {"diffusion-pipe", "diffusion-pipe", recognises, arrange, table};
}

}  // namespace burnish::foreign
