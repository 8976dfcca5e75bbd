#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"

// Names and defaults: examples/main_example.toml, examples/dataset.toml, docs/supported_models.md and train.py of diffusion-pipe.
namespace burnish::foreign {

namespace of_diffusion_pipe {
namespace {

const std::map<std::string, std::string> kOptimizers{{"adamw", "adamw"},
                                                     {"adamw_optimi", "adamw"},
                                                     {"adamw8bit", "adamw8bit"},
                                                     {"adamw8bitkahan", "adamw8bit"},
                                                     {"prodigy", "prodigy"},
                                                     {"lion", "lion"},
                                                     {"adafactor", "adafactor"},
                                                     {"came", "came"},
                                                     {"schedulefreeadamw", "adamw_schedulefree"}};

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("optimizer.type")));
  return it == kOptimizers.end() ? "" : it->second;
}

bool has_unet(const Settings& all) { return all.text("model.type") == "sdxl"; }
bool has_adapter(const Settings& all) { return all.has("adapter.type"); }

/// The text encoders of SDXL train with its UNet; of the others the denoiser alone.
std::string trained_parts(const Settings& all) { return has_unet(all) ? "unet,text_encoder,text_encoder_2" : "dit"; }

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

Outcome sampling(const Value& value, const Settings& all) {
  if (has_unet(all)) return left_out("");
  if (all.on("model.flux_shift")) return carried("flux_shift");
  if (text_of(value) == "uniform")
    return all.has("model.shift") ? left_out("a shift of uniform draws is timestep_sampling sigma, in 1000 levels") : carried("uniform");
  return carried(all.has("model.shift") ? "shift" : "sigmoid");
}

/// Of a list of paths, or of objects that have one.
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
  std::vector<std::pair<std::string, Value>> directories;
  for (size_t i = 0; i < file["directory"].size(); ++i) {
    auto merged = file;
    merged.erase("directory");
    merged.update(file["directory"][i]);
    directories.emplace_back("directory[" + std::to_string(i) + "].path", merged);
  }
  arranged.tree["dataset"] = first_of(directories, arranged);
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

void model_rows(Table& table) {
  table << kind_row("model.type", {"sdxl", "flux", "flux2", "qwen_image", "z_image", "chroma"});
  for (const char* name : {"model.transformer_path", "model.diffusion_model", "model.text_encoder_path", "model.vae_path", "model.vae",
                           "model.checkpoint_path", "model.diffusers_path"})
    table << same(name, "model");
  table << rewritten("model.text_encoders", "model", paths) << rewritten("model.merge_adapters", "preset_lora_path", paths);
  table << rewritten("model.dtype", "dtype", dtype);
  for (const char* name : {"model.transformer_dtype", "model.diffusion_model_dtype"}) table << rewritten(name, "fp8_models", fp8_denoiser);
  table << rewritten("model.timestep_sample_method", "timestep_sampling", sampling, "logit_normal");
  table << same("model.shift", "discrete_flow_shift") << same("model.sigmoid_scale", "sigmoid_scale");
  table << same("model.min_t", "min_t") << same("model.max_t", "max_t") << same("model.min_snr_gamma", "min_snr_gamma");
  table << rewritten(
      "model.debiased_estimation_loss", "loss_weighting",
      [](const Value& value, const Settings&) { return carried(asks_for_something(value) ? "debiased" : "uniform"); }, false);
  table << rewritten("model.v_pred", "prediction_type", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried("v_prediction") : left_out("");
  });
  table << same("model.unet_lr", "learning_rate");
  table << rewritten("model.text_encoder_1_lr", "text_encoder_lr", [](const Value& value, const Settings& all) {
    auto rates = "text_encoder=" + text_of(value);
    return carried(all.has("model.text_encoder_2_lr") ? rates + ",text_encoder_2=" + all.text("model.text_encoder_2_lr") : rates);
  });
  table << rewritten("model.text_encoder_2_lr", "text_encoder_lr", [](const Value& value, const Settings& all) {
    return all.has("model.text_encoder_1_lr") ? left_out("") : carried("text_encoder_2=" + text_of(value));
  });
  table << looked_at({"model.flux_shift"});
  table << no_place({"model.*"}, "no option of the models here");
}

void adapter_rows(Table& table) {
  table << words("adapter.type", "lora_type", {{"lora", "lora"}, {"lokr", "lokr"}}, "adapters here are lora, dora, loha and lokr");
  table << rewritten("adapter.type", "lora_format", [](const Value&, const Settings& all) {
    return all.has("adapter.init_from_existing") ? left_out("") : carried(has_unet(all) ? "kohya" : "diffusers");
  });
  table << rewritten("adapter.type", "lora_base_model", [](const Value&, const Settings& all) { return carried(trained_parts(all)); });
  table << rewritten("model.type", "trainable_models",
                     [](const Value&, const Settings& all) { return has_adapter(all) ? left_out("") : carried(trained_parts(all)); });
  table << rewritten("adapter.rank", "lora_rank", [](const Value& value, const Settings& all) {
    if (all.has("adapter.init_from_existing")) return left_out("the file of init_from_existing decides it");
    bool all_of_it = number_of(value).value_or(0) > 65536;
    return all_of_it ? left_out("a rank that stands for a full matrix; give the rank of each factor") : carried(value);
  });
  table << same("adapter.dropout", "lora_dropout") << same("adapter.decompose_factor", "lokr_factor");
  table << same("adapter.init_from_existing", "lora_checkpoint") << rewritten("adapter.fuse_adapters", "preset_lora_path", fused);
  table << rewritten("adapter.dtype", "save_dtype", precision);
  table << no_place({"adapter.*"}, "no option of the adapters here");
}

void optimizer_rows(Table& table) {
  table << rewritten("optimizer.type", "optimizer", [](const Value& value, const Settings& all) {
    auto name = optimizer_of(all);
    if (name.empty()) return left_out("no such optimizer; docs/optimizers.md lists those there are, prodigy finds its own learning rate");
    bool compensated = lower(text_of(value)).ends_with("kahan") || text_of(value) == "adamw_optimi";
    return carried(name, compensated ? "trained_weights says how weights are rounded, in place of Kahan sums" : "");
  });
  table << rewritten("optimizer.lr", "learning_rate", [](const Value& value, const Settings& all) {
    return all.has("model.unet_lr") ? left_out("unet_lr takes its place") : carried(value);
  });
  table << weight_decay_row("optimizer.weight_decay", optimizer_of);
  table << rewritten("optimizer.type", "optimizer_args", [](const Value&, const Settings& all) {
    std::vector<std::string> entries;
    if (const auto* betas = all.find("optimizer.betas"); betas && betas->is_array()) {
      std::vector<std::string> numbers;
      for (const auto& beta : *betas) numbers.push_back(text_of(beta));
      entries.push_back("betas=" + join(numbers, ","));
    }
    for (const char* name : {"eps", "d_coef", "d0"}) {
      if (all.has(std::string("optimizer.") + name))
        entries.push_back(std::string(name) + "=" + all.text(std::string("optimizer.") + name));
    }
    return entries.empty() || optimizer_of(all).empty() ? left_out("") : carried(join(entries, ","));
  });
  table << looked_at({"optimizer.betas", "optimizer.eps", "optimizer.d_coef", "optimizer.d0"});
  table << no_place({"optimizer.*"}, "no number of the optimizers here");
}

void data_rows(Table& table) {
  table << same("dataset.path", "dataset_metadata_path") << same("dataset.num_repeats", "dataset_repeat");
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
  table << same("dataset.caption_prefix", "caption_prefix");
  table << rewritten("dataset.shuffle_tags", "shuffle_caption", if_on(true))
        << rewritten("dataset.cache_shuffle_num", "shuffle_caption", if_on(true, "in another order at each visit, not in one of so many"));
  table << rewritten("dataset.cache_shuffle_delimiter", "caption_separator", [](const Value& value, const Settings& all) {
    auto delimiter = std::string(trim(text_of(value)));
    return all.on("dataset.cache_shuffle_num") && !delimiter.empty() ? carried(delimiter) : left_out("");
  });
  table << no_place({"dataset.control_path"}, kNameReferences);
  table << no_place({"dataset.mask_path"}, "name the masks in a column of a metadata file (masked_loss column)");
  table << needless({"dataset.min_ar", "dataset.max_ar", "dataset.num_ar_buckets", "dataset.frame_buckets", "dataset.skip_empty_caption"});
  table << no_place({"dataset"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
  table << no_place({"dataset.*"}, "no option of the data here");
}

constexpr const char* kNotCut = "a model is not cut into stages: each of several processes (burnish launch -n 2 -- train) runs all of it";

void run_rows(Table& table) {
  table << same("output_dir", "output_path") << same("max_steps", "max_steps");
  table << rewritten("epochs", "num_epochs", [](const Value& value, const Settings& all) {
    return all.has("max_steps") ? left_out("max_steps takes its place") : carried(value);
  });
  table << rewritten("micro_batch_size_per_gpu", "batch_size", [](const Value& value, const Settings&) {
    return value.is_array() ? left_out("batches of every size have as many samples") : carried(value);
  });
  table << same("gradient_accumulation_steps", "gradient_accumulation_steps") << same("gradient_clipping", "max_grad_norm");
  table << same("warmup_steps", "lr_warmup_steps") << same("seed", "seed");
  table << words("lr_scheduler", "lr_scheduler", {{"constant", "constant"}, {"linear", "linear"}, {"cosine", "cosine"}},
                 "no such schedule");
  table << rewritten("activation_checkpointing", "use_gradient_checkpointing",
                     [](const Value& value, const Settings&) { return carried(asks_for_something(value)); });
  table << rewritten("activation_checkpointing", "use_gradient_checkpointing_offload",
                     [](const Value& value, const Settings&) { return text_of(value) == "unsloth" ? carried(true) : left_out(""); });
  table << rewritten("pseudo_huber_c", "loss_type",
                     [](const Value&, const Settings&) { return carried("huber", "losses are 2c times as large here"); });
  table << rewritten("pseudo_huber_c", "huber_c", [](const Value& value, const Settings&) { return carried(value); });
  table << rewritten("pseudo_huber_c", "huber_schedule", [](const Value&, const Settings&) { return carried("constant"); });
  table << rewritten("save_dtype", "save_dtype", precision);
  table << same("save_every_n_epochs", "save_epochs") << same("save_every_n_steps", "save_steps");
  table << rewritten("checkpoint_every_n_minutes", "save_minutes",
                     [](const Value& value, const Settings&) { return carried(value, "a save holds state and weights"); });
  table << no_place({"checkpoint_every_n_epochs"}, "state is written with every save");
  table << no_place({"save_every_n_examples", "eval_every_n_examples"}, "say it in steps or epochs");
  table << no_place({"eval_datasets"}, "name held-out samples in validation_metadata_path");
  table << same("blocks_to_swap", "blocks_to_swap");
  table << no_place({"force_constant_lr"}, "say learning_rate with lr_scheduler constant");
  auto more_than_one = [](const Value& value, const Settings&) { return left_out(number_of(value).value_or(1) > 1 ? kNotCut : ""); };
  table << rewritten("pipeline_stages", "", more_than_one) << no_place({"partition_split"}, kNotCut);
  table << no_place({"image_micro_batch_size_per_gpu"}, "pictures alone are trained; batch_size is what one process runs at once");
  table << needless({"monitoring.*", "eval_every_n_epochs", "eval_every_n_steps", "eval_before_first_step", "eval_micro_batch_size_per_gpu",
                     "image_eval_micro_batch_size_per_gpu", "eval_gradient_accumulation_steps", "disable_block_swap_for_eval",
                     "reentrant_activation_checkpointing", "partition_method", "caching_batch_size", "map_num_proc", "compile",
                     "steps_per_print", "video_clip_mode", "x_axis_examples", "logging_steps"});
}

Table table() {
  Table table;
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
