#include <algorithm>

#include "base/text.h"
#include "foreign/program.h"
#include "foreign/prompts.h"

// Names and defaults: src/musubi_tuner/hv_train_network.py and docs/dataset_config.md of musubi-tuner.
namespace burnish::foreign {

namespace of_musubi {
namespace {

bool is_dataset_file(const Value& tree) {
  if (!tree.is_object() || !tree.contains("datasets")) return false;
  const auto& datasets = tree["datasets"];
  if (!datasets.is_array() || datasets.empty() || !datasets[0].is_object()) return false;
  for (const char* name : {"image_directory", "image_jsonl_file", "video_directory", "video_jsonl_file"}) {
    if (datasets[0].contains(name)) return true;
  }
  return false;
}

bool recognises(const Value& tree) {
  return tree.is_object() && (is_dataset_file(tree) || (tree.contains("dit") && tree.contains("dataset_config")));
}

void merge_datasets(const Value& file, Arranged& arranged) {
  std::vector<Dataset> datasets;
  for (size_t i = 0; i < file["datasets"].size(); ++i) {
    auto merged = file.value("general", Value::object());
    merged.update(file["datasets"][i]);
    datasets.push_back({"datasets[" + std::to_string(i) + "]", merged});
  }
  arranged.tree.update(first_of(datasets, arranged));
}

Arranged arrange(Value tree, const Open& open) {
  if (is_dataset_file(tree)) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    merge_datasets(tree, arranged);
    return arranged;
  }
  Arranged arranged{.tree = tree};
  for (const char* name : {"network_args", "optimizer_args"}) {
    if (tree.contains(name)) arranged.tree[name] = named_arguments(tree[name]);
  }
  auto prompts = kPromptsOfMusubi;
  prompts.frames_before = lower(text_of(tree.value("model_version", Value()))) == "layered" ? 1 : 0;  // its frames are layers of a picture
  put_sample_prompts(arranged, open, prompts);
  if (auto file = open(text_of(tree["dataset_config"])); is_dataset_file(file)) {
    arranged.tree.erase("dataset_config");
    merge_datasets(file, arranged);
  }
  return arranged;
}

/// A size is 960 by 544 where none is given.
std::vector<Row> sizes() {
  auto rows = size_rows("resolution", [](const Settings& all) { return !all.on("enable_bucket"); });
  for (auto& row : rows) {
    row.absent = Value::array({960, 544});
    row.convert = [convert = row.convert](const Value& value, const Settings& all) {
      return all.has("resolution") || all.has("image_directory") || all.has("video_directory") ? convert(value, all) : left_out("");
    };
  }
  return rows;
}

std::string extraction(const Settings& all) { return lower(all.text("frame_extraction", "head")); }

/// It takes 1 and a multiple of 4 frames, the next number below.
int64_t whole_frames(double number) { return std::max<int64_t>(1, (static_cast<int64_t>(number) - 1) / 4 * 4 + 1); }

/// Where several numbers are given, it takes clips of each out of every file.
Outcome target_frames(const Value& value, const Settings& all) {
  if (extraction(all) == "full") return left_out("");
  double largest = 0;
  int64_t count = 0;
  for (const auto& item : value.is_array() ? value : Value::array({value})) {
    largest = std::max(largest, number_of(item).value_or(0));
    ++count;
  }
  if (largest < 1) return left_out("is no list of numbers of frames");
  return carried(whole_frames(largest), count > 1 ? "of each file clips of every number are taken there, here of the largest; give a "
                                                    "dataset for each number in a dataset_config"
                                                  : "");
}

/// What counts under one way of taking frames.
Convert under(const char* way, std::function<Outcome(const Value&)> convert) {
  return [way, convert](const Value& value, const Settings& all) {
    return all.has("video_directory") && extraction(all) == way ? convert(value) : left_out("");
  };
}

void clip_rows(Table& table) {
  table << rewritten("video_directory", "dataset_metadata_path", [](const Value& value, const Settings& all) {
    return carried(value, all.has("source_fps") ? "" : "its frames are taken one by one there, and here at frame_rate, by their times");
  });
  table << rewritten("target_frames", "num_frames", target_frames);
  table << rewritten("max_frames", "num_frames",
                     under("full", [](const Value& value) { return carried(whole_frames(number_of(value).value_or(1))); }))
               .otherwise(129);
  const std::map<std::string, std::string> ways{
      {"head", "head"}, {"chunk", "chunks"}, {"slide", "slide"}, {"uniform", "uniform"}, {"full", "whole"}};
  table << words("frame_extraction", "frame_extraction", ways, "no such way to take frames out of a clip", "head");
  table << rewritten("frame_stride", "frame_stride", under("slide", [](const Value& value) { return carried(value); })).otherwise(1)
        << rewritten("frame_sample", "frame_sample", under("uniform", [](const Value& value) { return carried(value); })).otherwise(1);
  table << needless({"source_fps"}, "a clip says its own rate; its frames are taken by their times");
  table << no_place({"video_jsonl_file"}, "its columns are called otherwise; write a metadata file with the columns video and prompt");
}

bool is_layered(const Settings& all) { return lower(all.text("model_version")) == "layered"; }

/// The pictures of Qwen-Image-Layered, and a column that lets previews name the one that is taken apart.
void layer_rows(Table& table) {
  auto in_lines = [](const char* ours) {
    return [ours](const Value& value, const Settings& all) {
      if (all.on("multiple_target")) return carried(ours[0] == '\0' ? value : Value(ours));
      return left_out(ours[0] == '\0' ? "its columns are called otherwise; write a metadata file with the columns image and prompt" : "");
    };
  };
  table << rewritten("image_jsonl_file", "dataset_metadata_path", in_lines(""))
        << rewritten("image_jsonl_file", "data_file_keys", in_lines("image_path"))
        << rewritten("image_jsonl_file", "dataset_base_path", in_lines("."));
  table << rewritten("model_version", "extra_inputs",
                     [](const Value&, const Settings& all) { return is_layered(all) ? carried("layer_input_image") : left_out(""); });
  table << looked_at({{"multiple_target", false}});
  table << same("remove_first_image_from_target", "without_whole").otherwise(false);
}

void data_rows(Table& table) {
  table << same("image_directory", "dataset_metadata_path") << same("batch_size", "batch_size").otherwise(1)
        << same("num_repeats", "dataset_repeat").otherwise(1);
  table << sizes();
  table << looked_at({{"enable_bucket", false}}) << needless({"cache_directory"}, "what frozen models make is computed by the run itself")
        << needless({{"debug_dataset", false}}, "`burnish data` shows what a run would read");
  table << needless({{"bucket_no_upscale", false}}, "pictures are never scaled up where each keeps its shape");
  table << needless({{"fp_latent_window_size", 9}, "fp_1f_clean_indices", "fp_1f_target_index", {"fp_1f_no_post", false}},
                    "a model for videos alone reads it");
  table << caption_ending_row("caption_extension");
  layer_rows(table);
  clip_rows(table);
  table << no_place({"control_directory"}, kNameReferences);
  table << no_place({{"no_resize_control", false}, "control_resolution"}, "reference pictures have the sizes that extra_inputs gives them");
  table << no_place({"dataset_config"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
}

/// Of these models it leaves out modulation, and the blocks that refine (networks/lora_{qwen_image,flux_2,zimage,wan}.py).
Outcome layers(const Value& module, const Settings& all) {
  if (all.has("network_weights")) return left_out("");
  auto name = text_of(module);
  if (name.ends_with("lora_qwen_image")) return carried("transformer_blocks\\.[0-9]+\\.(attn|img_mlp|txt_mlp)\\..*");
  if (name.ends_with("lora_flux_2")) return carried("(single_)?transformer_blocks\\.[0-9]+\\..*");
  if (name.ends_with("lora_wan")) return carried("blocks\\.[0-9]+\\..*");
  if (name.ends_with("lora_zimage")) return carried("layers\\.[0-9]+\\.(attention|feed_forward)\\..*");
  return left_out("");
}

void network_rows(Table& table) {
  table << rewritten("network_module", "lora_type", [](const Value& value, const Settings&) {
    auto name = text_of(value);
    return carried(name.ends_with("loha") ? "loha" : name.ends_with("lokr") ? "lokr" : "lora");
  });
  table << rewritten("network_module", "lora_format", [](const Value&, const Settings&) { return carried("kohya"); });
  table << rewritten("network_module", "lora_target_modules", layers);
  table << same("network_weights", "lora_checkpoint");
  table << rewritten(
      "network_module", "trainable_models",
      [](const Value&, const Settings& all) { return all.has("network_module") ? left_out("") : carried("dit"); }, "none");
  auto when_new = [](const Value& value, const Settings& all) {
    if (!all.has("network_module")) return left_out("");
    return all.has("network_weights") ? left_out("the file of network_weights decides type, rank and alpha") : carried(value);
  };
  table << rewritten("network_dim", "lora_rank", when_new, 4) << rewritten("network_alpha", "lora_alpha", when_new, 1);
  table << same("network_dropout", "lora_dropout") << same("network_args.loraplus_lr_ratio", "loraplus_lr_ratio");
  table << same("network_args.factor", "lokr_factor");
  table << needless({{"dim_from_weights", false}}, "a file's rank is its own")
        << no_place({"scale_weight_norms"}, "norms of adapters are not bounded");
  table << no_place({"network_args.*"}, "lora_target_modules and lora_rank_groups say which layers get which rank");
  table << same("base_weights", "preset_lora_path");
  table << no_place({"base_weights_multiplier"}, "write the strength behind the file: preset_lora_path FILE:0.8");
}

/// How the same is held and computed.
void held_rows(Table& table) {
  table << needless({{"block_swap_h2d_only", false},
                     {"use_pinned_memory_for_block_swap", false},
                     {"block_swap_ring_size", 2},
                     {"fp8_t5", false},
                     {"fp8_llm", false},
                     {"fp8_vl", false},
                     {"fp8_text_encoder", false},
                     "vae_dtype",
                     "dit_dtype",
                     "text_encoder_dtype",
                     {"use_32bit_attention", false},
                     {"disable_numpy_memmap", false},
                     {"mem_eff_save", false},
                     {"block_swap_optimizer_patch_params", false},
                     {"vae_disable_cache", false},
                     {"vae_cache_cpu", false},
                     {"offload_inactive_dit", false},
                     {"force_v2_1_time_embedding", false}},
                    "says how the same is held and computed");
  table << needless({{"compile_mode", "default"},
                     "compile_cache_size_limit",
                     "compile_dynamic",
                     {"compile_fullgraph", false},
                     {"cuda_allow_tf32", false},
                     {"cuda_cudnn_benchmark", false}},
                    "says how the same is computed");
}

/// What a script draws timesteps by where nothing else is said.
Value default_sampling(const Settings& all) { return all.text("script").starts_with("ideogram4_train") ? "ideogram4_shift" : "sigma"; }

Table table() {
  Table table;
  for (const char* name :
       {"dit", "dit_high_noise", "unconditional_dit", "vae", "ae", "text_encoder", "text_encoder1", "text_encoder2", "clip", "t5"})
    table << same(name, "model");
  network_rows(table);
  data_rows(table);
  table << kohya_training([](const Settings&) { return true; }).rows;
  auto sampling = words("timestep_sampling", "timestep_sampling",
                        {{"sigma", "sigma"},
                         {"uniform", "uniform"},
                         {"sigmoid", "sigmoid"},
                         {"shift", "shift"},
                         {"flux_shift", "flux_shift"},
                         {"flux2_shift", "flux_shift"},  // counts the same tokens, of latents that are packed already
                         {"qwen_shift", "qwen_shift"},
                         {"krea2_shift", "krea2_shift"},
                         {"ideogram4_shift", "ideogram4_shift"},
                         {"logsnr", "logsnr"}},
                        "no such way to draw timesteps", "sigma");
  sampling.convert = [convert = sampling.convert](const Value& value, const Settings& all) {
    return convert(all.has("timestep_sampling") ? value : default_sampling(all), all);
  };
  table << sampling;
  table << rewritten(
      "weighting_scheme", "loss_weighting",
      [](const Value& value, const Settings&) {
        auto scheme = text_of(value);
        return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
      },
      "none");
  table << rewritten(
      "discrete_flow_shift", "discrete_flow_shift", [](const Value& value, const Settings&) { return carried(value); }, 1.0);
  const std::pair<const char*, double> numbers[] = {{"sigmoid_scale", 1.0}, {"logit_mean", 0.0}, {"logit_std", 1.0}, {"mode_scale", 1.29}};
  for (const auto& [name, number] : numbers) table << same(name, name).otherwise(number);
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0) / 1000)); };
  table << rewritten("min_timestep", "max_timestep_boundary", share) << rewritten("max_timestep", "min_timestep_boundary", share);
  table << rewritten("fp8_base", "fp8_models", [](const Value& value, const Settings& all) {
             return asks_for_something(value) ? carried("dit", all.on("fp8_scaled") ? "" : "weights get a scale for each row here")
                                              : left_out("");
           }).otherwise(false);
  table << rewritten("guidance_scale", "embedded_guidance", [](const Value& value, const Settings&) {
             return carried(value);
           }).otherwise(1.0);
  table << no_place({{"img_in_txt_in_offloading", false}}, "nothing is moved to main memory while a step runs");
  table << no_place({"timestep_boundary"},
                    "experts meet at the noise that the model's model_index.json says, or else where the published ones do");
  table << no_place({{"one_frame", false}}, "previews of one frame are pictures");
  table << no_place({"num_layers"}, "the model's files say it");
  table << rewritten("full_bf16", "trained_weights", [](const Value& value, const Settings& all) {
             if (all.has("network_module") || lower(all.text("mixed_precision", "no")) != "bf16") return left_out("");
             if (!asks_for_something(value)) return carried("remainder");  // in fp32, multiplied in bf16
             return carried(kohya_optimizer()(all) == "adafactor" && all.on("fused_backward_pass") ? "stochastic" : "nearest");
           }).otherwise(false);
  table << prompts_row() << rewritten("sample_every_n_steps", "preview_steps", [](const Value& value, const Settings& all) {
    return all.has("sample_prompts") ? carried(value) : left_out("");
  });
  table << no_place({"sample_every_n_epochs"}, "previews are drawn every preview_steps steps");
  table << no_place({"num_timestep_buckets", {"preserve_distribution_shape", false}}, "timesteps are drawn one by one");
  table << same("blocks_to_swap", "blocks_to_swap")
        << same("gradient_checkpointing_cpu_offload", "use_gradient_checkpointing_offload").otherwise(false);
  table << same("fused_backward_pass", "fused_backward_pass").otherwise(false);
  table << same("vae_spatial_tile_sample_min_size", "vae_tile_size");
  table << rewritten("vae_tiling", "vae_tile_size", [](const Value& value, const Settings& all) {
             bool has_size = all.has("vae_spatial_tile_sample_min_size");
             return asks_for_something(value) && !has_size ? carried(256, "tiles of 256 pixels a side overlap by 64") : left_out("");
           }).otherwise(false);
  table << no_place({"vae_chunk_size"}, "vae_tile_size is what saves memory in the autoencoder");
  table << kind_row("script", {"qwen_image_train*", "zimage_train*", "flux_kontext_train*", "flux_2_train*", "krea2_train*",
                               "ideogram4_train*", "wan_train*"});
  table << rewritten("dit_variant", "is_distilled", [](const Value& value, const Settings&) {
             return lower(text_of(value)) == "turbo" ? carried(true) : left_out("");
           }).otherwise("raw");
  table << no_place({"turbo_dit", {"turbo_dit_cache", false}},
                    "previews are drawn with the model that trains; burnish sample draws with another, and the LoRA");
  table << kind_row("model_version", {"original", "edit*", "layered", "klein*", "dev"});
  table << looked_at({{"fp8_scaled", false}});
  table << no_place({{"use_unconditional_dit_for_lora_sampling", false}}, "previews are guided by that model wherever it is named");
  table << no_place({{"sampler_preset", "V4_DEFAULT_20"}, {"initial_sigma", 1.004}}, "previews have steps and guidance of their own");
  table << needless({{"log_loss_stats", false}}, "shows and does not train")
        << needless({{"validate_caption_structure", false}, {"warn_on_caption_issues", false}}, "captions are looked at by themselves");
  held_rows(table);
  table << needless({"show_timesteps"}, "shows and does not train") << needless({{"dit_in_channels", 16}}, "the model's files say it")
        << needless({"task"}, "the model's files say it")
        << needless({{"sample_at_first", false}}, "previews are drawn before the first step and after the last");
  table << looked_at({"edit", "edit_plus"});
  return table;
}

}  // namespace
}  // namespace of_musubi

Program musubi() {
  using namespace of_musubi;
  return {"musubi", "musubi-tuner", recognises, arrange, table};
}

}  // namespace burnish::foreign
