#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/h3.h"
#include "foreign/musubi_h3.h"
#include "foreign/program.h"
#include "foreign/prompts.h"
#include "foreign/row_files.h"

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

/// Its scripts, as their names begin before "_train", and its modules of networks, behind "networks.lora_".
const std::vector<std::string> kScripts{"wan",       "qwen_image", "zimage", "flux_2",     "flux_kontext", "krea2",     "fpack",
                                        "ideogram4", "hv",         "hv_1_5", "kandinsky5", "hidream_o1",   "minimax_h3"};
const std::vector<std::string> kModules{"wan",       "qwen_image", "zimage",     "flux_2",     "krea2",     "hv_1_5",
                                        "ideogram4", "framepack",  "kandinsky5", "hidream_o1", "minimax_h3"};

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  if (is_dataset_file(tree)) return true;
  const auto flat = without_sections(tree);
  const auto script = text_of(flat.value("script", Value(""))), module = text_of(flat.value("network_module", Value("")));
  const auto is_of_script = [&](const std::string& name) { return script.starts_with(name + "_train"); };
  const auto is_of_module = [&](const std::string& name) { return module.ends_with("networks.lora_" + name); };
  return flat.contains("dit") || std::ranges::any_of(kScripts, is_of_script) || std::ranges::any_of(kModules, is_of_module);
}

bool may_be(const Value& tree) {
  return tree.is_object() && text_of(without_sections(tree).value("network_module", Value(""))).starts_with("networks.lo");
}

/// One dataset as those that it is here: of each file clips of every number of frames are taken there, and here of one.
std::vector<Dataset> datasets_of(const std::string& name, const Value& settings) {
  const auto frames = settings.value("target_frames", Value());
  const bool takes_one = lower(text_of(settings.value("frame_extraction", Value()))) == "full" || !settings.contains("video_directory");
  if (!frames.is_array() || frames.size() < 2 || takes_one) return {{name, settings}};
  std::vector<Dataset> datasets;
  for (size_t i = 0; i < frames.size(); ++i) {
    datasets.push_back({fmt::format("{}.target_frames[{}]", name, i), settings});
    datasets.back().settings["target_frames"] = Value::array({frames[i]});
  }
  return datasets;
}

/// Tells for what a dataset is: it names a folder of pictures or one of clips.
DatasetUse use_of(const Dataset& dataset) {
  const bool of_clips = dataset.settings.contains("video_directory");
  return {text_of(dataset.settings.value(of_clips ? "video_directory" : "image_directory", Value(""))), of_clips};
}

void merge_datasets(const Value& file, Arranged& arranged) {
  std::vector<Dataset> datasets;
  for (size_t i = 0; i < file["datasets"].size(); ++i) {
    auto merged = file.value("general", Value::object());
    merged.update(file["datasets"][i]);
    for (auto& dataset : datasets_of("datasets[" + std::to_string(i) + "]", merged)) datasets.push_back(std::move(dataset));
  }
  part_by_media(datasets, use_of);
  arranged.tree.update(first_of(datasets, arranged));
}

Arranged arrange(Value tree, const Open& open) {
  if (is_dataset_file(tree)) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    merge_datasets(tree, arranged);
    return arranged;
  }
  tree = without_sections(tree);
  // The script of MiniMax-H3 names its network by itself.
  if (text_of(tree.value("script", Value())).starts_with("minimax_h3_train") && !tree.contains("network_module"))
    tree["network_module"] = "networks.lora_minimax_h3";
  Arranged arranged{.tree = tree};
  for (const char* name : {"network_args", "optimizer_args"}) {
    if (tree.contains(name)) arranged.tree[name] = named_arguments(tree[name]);
  }
  auto prompts = kPromptsOfMusubi;
  prompts.frames_before = lower(text_of(tree.value("model_version", Value()))) == "layered" ? 1 : 0;  // its frames are layers of a picture
  put_sample_prompts(arranged, open, prompts);
  if (auto file = open(text_of(tree.value("dataset_config", Value("")))); is_dataset_file(file)) {
    arranged.tree.erase("dataset_config");
    merge_datasets(file, arranged);
  }
  return arranged;
}

/// Tells whether pictures go to the bucket nearest their shape, whatever their size; else each keeps its shape, or has the one size.
bool goes_to_buckets(const Settings& all) { return all.on("enable_bucket") && !all.on("bucket_no_upscale"); }

/// The rows of a size, which is 960 by 544 where none is given. Its buckets are of that area, from 1:4 to 4:1 in steps of 16.
std::vector<SettingRow> sizes() {
  auto rows = size_rows("resolution", [](const Settings& all) { return !all.on("enable_bucket"); });
  for (auto& row : rows)
    row.convert = [convert = row.convert](const Value& value, const Settings& all) {
      return goes_to_buckets(all) ? left_out("") : convert(value, all);
    };
  const auto of_buckets = [&](const char* ours, const std::function<Value(const std::vector<int64_t>& sides)>& of) {
    rows.push_back(rewritten("resolution", ours, [of](const Value& value, const Settings& all) {
      const auto sides = sides_of(value);
      return sides.empty() || !goes_to_buckets(all) ? left_out("") : carried(of(sides));
    }));
  };
  const auto edge = [](const std::vector<int64_t>& sides) { return std::sqrt(static_cast<double>(sides[0] * sides[1])); };
  of_buckets("resolution", [](const auto& sides) { return Value::array({fmt::format("{},{}", sides[0], sides[1])}); });
  of_buckets("enable_bucket", [](const auto&) { return true; });
  of_buckets("bucket_no_upscale", [](const auto&) { return false; });
  of_buckets("bucket_reso_steps", [](const auto&) { return 16; });
  of_buckets("min_bucket_reso", [edge](const auto& sides) { return static_cast<int64_t>(edge(sides) / 2) / 16 * 16; });
  of_buckets("max_bucket_reso", [edge](const auto& sides) { return static_cast<int64_t>(2 * edge(sides)) / 16 * 16; });
  for (auto& row : rows) {
    row.absent = Value::array({960, 544});
    row.convert = [convert = row.convert](const Value& value, const Settings& all) {
      return all.has("resolution") || all.has("image_directory") || all.has("video_directory") ? convert(value, all) : left_out("");
    };
  }
  return rows;
}

std::string extraction(const Settings& all) { return lower(all.text("frame_extraction", "head")); }

/// Wan takes 1 and a multiple of 4 frames, the next number below.
int64_t whole_frames(double number, const Settings& all) {
  return of_musubi_h3(all) ? frames_of_h3(number) : std::max<int64_t>(1, (static_cast<int64_t>(number) - 1) / 4 * 4 + 1);
}

/// Carries a number of frames, of several the largest: datasets that are arranged have one.
Outcome target_frames(const Value& value, const Settings& all) {
  if (extraction(all) == "full") return left_out("");
  double largest = 0;
  for (const auto& item : value.is_array() ? value : Value::array({value})) largest = std::max(largest, number_of(item).value_or(0));
  return largest < 1 ? left_out("is no list of numbers of frames") : carried(whole_frames(largest, all));
}

/// Converts a value that counts under one way of taking frames.
Convert under(const char* way, std::function<Outcome(const Value&)> convert) {
  return [way, convert](const Value& value, const Settings& all) {
    return all.has("video_directory") && extraction(all) == way ? convert(value) : left_out("");
  };
}

/// The columns of frames that a task goes on from, and of the sound that is learned beside them.
Outcome inputs_of_task(const Value& value, const Settings& all) {
  const auto task = lower(text_of(value));
  if (task == "ref2va") return carried(hears_h3(all) ? with_sound("references") : "references", kReferencesOfH3);
  const bool has_both = task == "fl2va" || task.starts_with("flf2v");
  const std::string frames = has_both ? "input_image,end_image" : task.starts_with("i2v") ? "input_image" : "";
  if (hears_h3(all)) return carried(with_sound(frames), "clips without a sound have silence beside them there, and here noise");
  return frames.empty() ? left_out("") : carried(frames);
}

void clip_rows(Table& table) {
  table << rewritten("task", "extra_inputs", inputs_of_task).otherwise("t2v-14B");
  table << same("dit_high_noise", "model", "one network is trained on both models there, and here one on each, in a file of its own");
  table << rewritten("video_directory", "dataset_metadata_path", [](const Value& value, const Settings& all) {
    return carried(value, all.has("source_fps") ? "" : "its frames are taken one by one there, and here at frame_rate, by their times");
  });
  table << rewritten("target_frames", "num_frames", target_frames);
  table << rewritten("max_frames", "num_frames", [](const Value& value, const Settings& all) {
             const auto whole = [&](const Value& number) { return carried(whole_frames(number_of(number).value_or(1), all)); };
             return under("full", whole)(value, all);
           }).otherwise(129);
  const std::map<std::string, std::string> ways{
      {"head", "head"}, {"chunk", "chunks"}, {"slide", "slide"}, {"uniform", "uniform"}, {"full", "whole"}};
  table << words("frame_extraction", "frame_extraction", ways, "no such way to take frames out of a clip", "head");
  table << rewritten("frame_stride", "frame_stride", under("slide", [](const Value& value) { return carried(value); })).otherwise(1)
        << rewritten("frame_sample", "frame_sample", under("uniform", [](const Value& value) { return carried(value); })).otherwise(1);
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
}

void data_rows(Table& table) {
  table << sizes();
  table << caption_ending_row("caption_extension");
  layer_rows(table);
  clip_rows(table);
}

/// Names the layers that carry adapters: of these models it leaves out modulation, and the blocks that refine
/// (networks/lora_{qwen_image,flux_2,zimage,wan}.py).
Outcome layers(const Value& module, const Settings& all) {
  if (all.has("network_weights")) return left_out("");
  auto name = text_of(module);
  if (name.ends_with("lora_qwen_image")) return carried("transformer_blocks\\.[0-9]+\\.(attn|img_mlp|txt_mlp)\\..*");
  if (name.ends_with("lora_flux_2")) return carried("(single_)?transformer_blocks\\.[0-9]+\\..*");
  if (name.ends_with("lora_minimax_h3")) return carried(kBlocksOfH3);
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
  table << rewritten(
      "network_module", "trainable_models",
      [](const Value&, const Settings& all) { return all.has("network_module") ? left_out("") : carried("dit"); }, "none");
  auto when_new = [](const Value& value, const Settings& all) {
    if (!all.has("network_module")) return left_out("");
    return all.has("network_weights") ? left_out("the file of network_weights decides type, rank and alpha") : carried(value);
  };
  table << rewritten("network_dim", "lora_rank", when_new, 4) << rewritten("network_alpha", "lora_alpha", when_new, 1);
}

/// Models of FLUX alone are told a guidance, as far as settings say what they are of.
bool is_told_guidance(const Settings& all) {
  const auto names = all.text("script") + all.text("network_module");
  return names.empty() || names.find("flux") != names.npos;
}

/// The distribution by which a script draws timesteps where nothing else is said, and the only one that MiniMax-H3's takes, whose even
/// times have a shift of their own.
Value sampling_of_script(const Value& given, const Settings& all) {
  if (of_musubi_h3(all)) return "sigma";
  if (all.has("timestep_sampling")) return given;
  return all.text("script").starts_with("ideogram4_train") ? "ideogram4_shift" : "sigma";
}

void time_rows(Table& table) {
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
    const auto given = sampling_of_script(value, all);
    const auto scheme = all.text("weighting_scheme");  // by which sigma is drawn
    return given == "sigma" && (scheme == "logit_normal" || scheme == "mode") ? carried(scheme) : convert(given, all);
  };
  table << sampling;
  table << rewritten(
      "weighting_scheme", "loss_weighting",
      [](const Value& value, const Settings&) {
        auto scheme = text_of(value);
        return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
      },
      "none");
  auto share = [](const Value& value, const Settings& all) {
    if (of_musubi_h3(all)) return left_out("cuts times off before their shift there; boundaries here are shares of noise behind it");
    return carried(rest_of(number_of(value).value_or(0) / 1000));
  };
  table << rewritten("min_timestep", "max_timestep_boundary", share) << rewritten("max_timestep", "min_timestep_boundary", share);
}

Table table() {
  Table table;
  table << rows_in("musubi", {{"told_guidance", is_told_guidance}, {"without_h3", [](const Settings& all) { return !of_musubi_h3(all); }}});
  table << musubi_h3_rows();
  network_rows(table);
  data_rows(table);
  table << kohya_training([](const Settings&) { return true; }).rows;
  time_rows(table);
  table << rewritten("fp8_base", "fp8_models", [](const Value& value, const Settings& all) {
             return asks_for_something(value) ? carried("dit", all.on("fp8_scaled") ? "" : "weights get a scale for each row here")
                                              : left_out("");
           }).otherwise(false);
  table << rewritten("full_bf16", "trained_weights", [](const Value& value, const Settings& all) {
             if (all.has("network_module") || lower(all.text("mixed_precision", "no")) != "bf16") return left_out("");
             if (!asks_for_something(value)) return carried("remainder");  // in fp32, multiplied in bf16
             return carried(kohya_optimizer()(all) == "adafactor" && all.on("fused_backward_pass") ? "stochastic" : "nearest");
           }).otherwise(false);
  table << prompts_row() << rewritten("sample_every_n_steps", "preview_steps", [](const Value& value, const Settings& all) {
    return all.has("sample_prompts") ? carried(value) : left_out("");
  });
  table << rewritten("vae_tiling", "vae_tile_size", [](const Value& value, const Settings& all) {
             bool has_size = all.has("vae_spatial_tile_sample_min_size");
             return asks_for_something(value) && !has_size ? carried(256, "tiles of 256 pixels a side overlap by 64") : left_out("");
           }).otherwise(false);
  table << kind_row("script", {"qwen_image_train*", "zimage_train*", "flux_kontext_train*", "flux_2_train*", "krea2_train*",
                               "ideogram4_train*", "wan_train*", "minimax_h3_train*"});
  table << rewritten("dit_variant", "is_distilled", [](const Value& value, const Settings&) {
             return lower(text_of(value)) == "turbo" ? carried(true) : left_out("");
           }).otherwise("raw");
  table << kind_row("model_version", {"original", "edit*", "layered", "klein*", "dev"});
  return table;
}

}  // namespace
}  // namespace of_musubi

Program musubi() {
  using namespace of_musubi;
  return {"musubi", "musubi-tuner", recognises, arrange, table, may_be, script_trains_whole};
}

}  // namespace burnish::foreign
