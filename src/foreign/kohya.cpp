#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "foreign/kohya_arrange.h"
#include "foreign/kohya_model.h"
#include "foreign/kohya_network.h"
#include "foreign/prompts.h"
#include "foreign/row_files.h"

// Names and defaults: library/train_util.py, train_network.py, library/flux_train_utils.py and docs/config_README-en.md of sd-scripts.
namespace burnish::foreign::of_kohya {

namespace {

/// A single block counts there as half a double block; a UNet has no such option.
Outcome swapped_blocks(const Value& value, const Settings& all) {
  if (is_conditioned(all) || has_three_encoders(all)) return carried(value);
  auto count = static_cast<int64_t>(number_of(value).value_or(0));
  return carried(count / 2 + 2 * (count - count / 2), "a number of blocks, whatever their size");
}

/// Gradients of all of such a model take as much as its weights: where nothing needs them together, they are freed one by one.
Outcome updates_in_backward(const Value& value, const Settings& all) {
  if (asks_for_something(value)) return carried(true);
  auto optimizer = lower(all.text("optimizer_type", "adamw"));
  bool can = all.number("gradient_accumulation_steps").value_or(1) == 1 && lower(all.text("mixed_precision")) == "bf16" &&
             optimizer != "prodigy" && optimizer != "prodigyopt.prodigy";
  if (!trains_whole(all) || !flows(all) || !can) return left_out("");
  return carried(true, "gradients are freed one by one, and max_grad_norm clips each by its own norm; take it out to clip by that of all");
}

Outcome kept_on_disk(const Value& value, const Settings&) {
  return asks_for_something(value) ? carried("cache", "a folder beside the settings") : left_out("");
}

/// Weights that train whole are in fp32 and multiplied in few bits, unless full_bf16 has them in bf16.
Outcome weights_that_train(const Value& value, const Settings& all) {
  if (!trains_whole(all) || trains_word(all) || lower(all.text("mixed_precision", "no")) != "bf16") return left_out("");
  if (!asks_for_something(value)) return carried("remainder");
  bool rounds = kohya_optimizer()(all) == "adafactor" && all.on("fused_backward_pass");
  return carried(rounds ? "stochastic" : "nearest");
}

/// Errors are those of clean latents there, which are the velocity's times sigma.
Outcome weighed_clean(const std::string& scheme) {
  if (scheme == "sigma_sqrt") return carried("uniform");
  return carried("sigma_squared", scheme == "cosmap" ? "cosmap weighs that by the time as well, which is left out" : "");
}

void model_rows(Table& table) {
  table << same("qwen3", "model",
                "both tokenizers are in sd-scripts' own folder configs; name their folders in tokenizer_path and tokenizer_2_path");
  table << kind_row("script", {"train_network.py", "train_db.py", "fine_tune.py", "train_textual_inversion.py", "sdxl_train.py",
                               "sdxl_train_network.py", "sdxl_train_textual_inversion.py", "flux_train.py", "flux_train_network.py",
                               "sd3_train.py", "sd3_train_network.py", "anima_train.py", "anima_train_network.py"});
  auto base_fp8 = [](const Value& value, const Settings& all) {
    return asks_for_something(value) ? carried(denoiser(all), "weights get a scale for each row here (weight_format fp8)") : left_out("");
  };
  for (const char* name : {"fp8_base", "fp8_base_unet"})
    table << rewritten(name, "fp8_models", base_fp8, false).where([](const Settings& all) { return !is_conditioned(all); });
  table << rewritten(
      "guidance_scale", "embedded_guidance",
      [](const Value& value, const Settings& all) {
        if (all.text("model_type") == "chroma" || is_conditioned(all) || has_three_encoders(all)) return left_out("");  // without one
        if (flows(all)) return carried(value);
        return left_out(number_of(value) == 3.5 ? "" : "only models that flow take it");
      },
      3.5);
}

void caption_rows(Table& table) {
  table << rewritten(
      "caption_extension", "caption_extension",
      [](const Value& value, const Settings& all) {
        if (all.has("caption_extention")) return left_out("");
        bool reads_captions = all.has("train_data_dir") || all.has("image_dir");
        return all.has("caption_extension") || reads_captions ? caption_ending_row("").convert(value, all) : left_out("");
      },
      ".caption");
  table << caption_ending_row("caption_extention");
  table << rewritten("class_tokens", "class_tokens", given_caption) << rewritten("reg_class_tokens", "class_prompt", given_caption);
}

void data_rows(Table& table) {
  table << rewritten("train_data_dir", "dataset_metadata_path", [](const Value& value, const Settings&) {
    bool is_there = std::filesystem::is_directory(text_of(value));
    return carried(value, is_there ? ""
                                   : "folders in it called REPEATS_WORDS there say how often their pictures are seen, and are one dataset "
                                     "here; where they are there when this is read, they are written as datasets of their own");
  });
  table << same("image_dir", "dataset_metadata_path");
  table << rewritten("dataset_repeats", "dataset_repeat", [](const Value& value, const Settings& all) {
             return all.has("num_repeats") ? left_out("") : carried(value);
           }).otherwise(1);
  table << rewritten("resolution", "resolution", [](const Value& value, const Settings&) {
    auto sides = sides_of(value);
    if (sides.empty()) return left_out("is no side, nor width and height");
    return carried(std::to_string(sides[0]) + "," + std::to_string(sides[1]));
  });
  table << rewritten(
      "bucket_no_upscale", "bucket_no_upscale",
      [](const Value& value, const Settings& all) { return all.on("enable_bucket") ? carried(value) : left_out(""); }, false);
  caption_rows(table);
  table << rewritten("conditioning_data_dir", "mask_folder", [](const Value& value, const Settings& all) {
    return all.on("masked_loss") && !all.on("alpha_mask") ? carried(value, "the mean of a mask's colours counts, not its red")
                                                          : left_out("no control networks are trained");
  });
  table << rewritten("masked_loss", "masked_loss", [](const Value& value, const Settings& all) {
             if (!asks_for_something(value)) return left_out("");
             return all.on("alpha_mask") ? carried("alpha")
                                         : carried("column", "masks are in mask_folder, or named in the column `mask` of a metadata file");
           }).otherwise(false);
}

void loss_rows(Table& table) {
  table << rewritten(
      "timestep_sampling", "timestep_sampling",
      [](const Value& value, const Settings& all) {
        if (!flows(all)) return left_out("");
        if (is_conditioned(all) && !all.has("timestep_sampling")) return carried("sigmoid");
        auto scheme = all.text("weighting_scheme");
        bool drawn = text_of(value) == "sigma" && (scheme == "logit_normal" || scheme == "mode");
        return carried(drawn ? Value(scheme) : value);
      },
      "sigma");
  table << rewritten(
      "weighting_scheme", "loss_weighting",
      [](const Value& value, const Settings& all) {
        if (all.on("debiased_estimation_loss") && !flows(all)) return carried("debiased");
        auto scheme = text_of(value);
        if (has_three_encoders(all)) return weighed_clean(scheme);
        return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
      },
      "none");
  auto of_flows = only(flows, same_value);
  const std::pair<const char*, double> numbers[] = {{"sigmoid_scale", 1.0}, {"logit_mean", 0.0}, {"logit_std", 1.0}, {"mode_scale", 1.29}};
  for (const auto& [name, number] : numbers) table << rewritten(name, name, of_flows, number);
  table << rewritten(
      "discrete_flow_shift", "discrete_flow_shift",
      [](const Value& value, const Settings& all) {
        if (has_three_encoders(all)) return all.has("training_shift") ? left_out("") : carried(1.0);
        if (is_conditioned(all) && !all.has("discrete_flow_shift")) return carried(1.0);
        return flows(all) ? carried(value) : left_out("");
      },
      3.0);
  table << rewritten("training_shift", "discrete_flow_shift", only(has_three_encoders, same_value));
  auto share = [](const Value& value, const Settings&) {
    auto number = number_of(value);
    return number ? carried(rest_of(*number / 1000)) : left_out("is no number");
  };
  table << rewritten("min_timestep", "max_timestep_boundary", share) << rewritten("max_timestep", "min_timestep_boundary", share);
  table << rewritten(
      "model_prediction_type", "",
      [](const Value& value, const Settings& all) {
        if (!flows(all) || is_conditioned(all) || has_three_encoders(all) || text_of(value) == "raw") return left_out("");
        return left_out("predictions count as they are, which sd-scripts calls raw and advises");
      },
      "sigma_scaled");
}

void run_rows(Table& table) {
  table << prompts_row() << rewritten("sample_every_n_steps", "preview_steps", [](const Value& value, const Settings& all) {
    return all.has("sample_prompts") ? carried(value) : left_out("");
  });
  table << rewritten("fused_backward_pass", "fused_backward_pass", updates_in_backward, false);
  table << switched("blockwise_fused_optimizers", "fused_backward_pass", true).otherwise(false);
  table << rewritten("cache_latents_to_disk", "cache_path", kept_on_disk, false)
        << rewritten("cache_text_encoder_outputs_to_disk", "cache_path", kept_on_disk, false);
  table << rewritten("blocks_to_swap", "blocks_to_swap", swapped_blocks);
  table << rewritten("llm_adapter_lr", "", [](const Value& value, const Settings&) {
    return left_out(number_of(value) == 0.0 ? "" : "write it for our layer paths in lr_groups");
  });
  table << rewritten("full_bf16", "trained_weights", weights_that_train, false);
  table << rewritten("t5xxl_max_token_length", "max_sequence_length", only(flows, same_value));
  table << same("t5_max_token_length", "max_sequence_length");
  table << rewritten("qwen3_max_token_length", "", [](const Value& value, const Settings& all) {
    bool differs = number_of(value) != all.number("t5_max_token_length").value_or(512);
    return left_out(differs ? "both tokenizers cut a text at max_sequence_length" : "");
  });
}

bool has_unet(const Settings& all) { return !flows(all); }
bool is_sd15(const Settings& all) { return has_unet(all) && !is_xl(all); }

Table table() {
  Table table;
  table << rows_in("kohya", {{"unet", has_unet}, {"sd15", is_sd15}});
  model_rows(table);
  network_rows(table);
  inversion_rows(table);
  data_rows(table);
  table << kohya_training(flows).rows;
  loss_rows(table);
  run_rows(table);
  return table;
}

}  // namespace

}  // namespace burnish::foreign::of_kohya

namespace burnish::foreign {

Program kohya() {
  using namespace of_kohya;
  return {"kohya", "kohya sd-scripts", recognises, arrange, table, may_be, script_trains_whole};
}

}  // namespace burnish::foreign
