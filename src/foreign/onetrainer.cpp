#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/onetrainer_adapter.h"
#include "foreign/onetrainer_arrange.h"
#include "foreign/onetrainer_concepts.h"
#include "foreign/onetrainer_course.h"
#include "foreign/onetrainer_model.h"
#include "foreign/onetrainer_words.h"
#include "foreign/row_files.h"

// Names and defaults: modules/util/config/ and training_presets/ of OneTrainer.
namespace burnish::foreign::of_onetrainer {

namespace {

/// Sides of squares, one of which a picture takes at a visit: "512,768"; or one exact size: "768x512". A concept may have its own.
std::vector<std::string> resolutions(const Settings& all) {
  const char* name = all.on("concept.image.enable_resolution_override") ? "concept.image.resolution_override" : "resolution";
  auto parts = split_list(all.text(name, "512"));
  for (auto& part : parts) std::replace(part.begin(), part.end(), 'x', ',');
  return parts;
}

Outcome resolution(const Value&, const Settings& all) {
  auto parts = resolutions(all);
  bool are_sizes = !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const auto& part) { return !sides_of(part).empty(); });
  return are_sizes ? carried(parts) : left_out("is no size");
}

bool buckets(const Settings& all) {
  auto parts = resolutions(all);
  bool is_exact = parts.size() == 1 && parts[0].find(',') != std::string::npos;
  return !is_exact && (!all.has("aspect_ratio_bucketing") || all.on("aspect_ratio_bucketing"));
}

bool shuffles(const Settings& all) { return all.on("concept.text.enable_tag_shuffling"); }
bool drops_tags(const Settings& all) {
  return all.on("concept.text.tag_dropout_enable") && all.text("concept.text.tag_dropout_mode", "FULL") == "RANDOM";
}

Outcome sampling(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kFlow{
      {"UNIFORM", "sigma"},   {"LOGIT_NORMAL", "logit_normal"},           {"HEAVY_TAIL", "heavy_tail"},
      {"COS_MAP", "cos_map"}, {"INVERTED_PARABOLA", "inverted_parabola"}, {"BETA", "beta"},
      {"SIGMOID", "logistic"}};
  auto it = kFlow.find(text_of(value));
  if (it == kFlow.end()) return left_out("no such way to draw timesteps");
  if (has_unet(all)) return carried(it->second == "sigma" ? "uniform" : it->second);
  if (all.on("dynamic_timestep_shifting") && it->second == "logit_normal")
    return carried("flux_shift", "the shift that follows a picture's size is that of flux_shift");
  return carried(it->second);
}

bool is(const Settings& all, const char* distribution) { return all.text("timestep_distribution", "UNIFORM") == distribution; }

/// Tells whether a folder has folders in it, as far as that can be told.
bool may_have_folders(const std::string& path) {
  std::error_code failed;
  std::filesystem::directory_iterator entries(path, failed);
  if (failed) return true;
  return std::any_of(begin(entries), end(entries), [](const auto& entry) { return entry.is_directory(); });
}

Outcome saves(const Value& value, const Settings& all, const std::string& unit, double factor) {
  return all.text("save_every_unit", "NEVER") == unit ? carried(number_of(value).value_or(0) * factor) : left_out("");
}

void data_rows(Table& table) {
  table << rewritten("concept.balancing", "dataset_repeat", [](const Value& value, const Settings& all) {
             auto number = number_of(value).value_or(1);
             if (all.text("concept.balancing_strategy", "REPEATS") != "REPEATS")
               return left_out(
                   "says how many samples an epoch has; say how often it has each of them (num_repeats, which may be a fraction)");
             return number == std::floor(number) && number >= 1 ? carried(number) : left_out("");
           }).otherwise(1.0);
  table << rewritten("concept.text.prompt_source", "class_tokens", prompt_of_concept, "sample");
  table << rewritten(
      "concept.image.enable_crop_jitter", "random_crop",
      [](const Value& value, const Settings& all) {
        return asks_for_something(value) && all.has("concept.path") ? left_out(
                                                                          "pictures are cut at their centre, unless "
                                                                          "random_crop cuts them anywhere")
                                                                    : left_out("");
      },
      true);
  auto if_tags_change = [](const Value& value, const Settings& all) {
    return shuffles(all) || drops_tags(all) ? carried(value) : left_out("");
  };
  table << rewritten("concept.text.tag_delimiter", "caption_separator", if_tags_change, ",")
        << rewritten("concept.text.keep_tags_count", "keep_tokens", if_tags_change, 1);
  table << rewritten("concept.text.tag_dropout_enable", "caption_tag_dropout_rate", [](const Value& value, const Settings& all) {
    if (!asks_for_something(value)) return left_out("");
    return drops_tags(all) ? carried(all.number("concept.text.tag_dropout_probability").value_or(0))
                           : left_out("tags are left out one by one, as by the mode RANDOM (caption_tag_dropout_rate)");
  });
  table << rewritten("concept.include_subdirectories", "", [](const Value& value, const Settings& all) {
             bool told = !asks_for_something(value) && all.has("concept.path") && may_have_folders(all.text("concept.path"));
             return left_out(told ? "pictures in folders below count here; move them away if there are any" : "");
           }).otherwise(false);
  table << concept_rows();
  table << rewritten("concept_file_name", "", [](const Value&, const Settings& all) {
             return left_out(all.has("concept.path") ? ""
                                                     : "is not there to be read; name the folder of pictures in dataset_metadata_path");
           }).otherwise("training_concepts/concepts.json");
  table << rewritten("resolution", "resolution", resolution, "512");
  table << rewritten("resolution", "multi_resolution",
                     [](const Value&, const Settings& all) { return resolutions(all).size() > 1 ? carried("one") : left_out(""); });
  auto if_buckets = [](Value ours) {
    return [ours](const Value&, const Settings& all) { return buckets(all) ? carried(ours) : left_out(""); };
  };
  table << rewritten("aspect_ratio_bucketing", "enable_bucket", if_buckets(true), true)
        << rewritten("aspect_ratio_bucketing", "bucket_rule", if_buckets("onetrainer"), true)
        << rewritten("aspect_ratio_bucketing", "bucket_no_upscale", if_buckets(false), true);
}

/// Weights by the signal-to-noise ratio count for models with discrete timesteps alone.
Outcome loss_weights(const Value& value, const Settings& all) {
  const auto word = text_of(value);
  if (word == "CONSTANT") return carried("uniform");
  if (word != "MIN_SNR_GAMMA" && word != "DEBIASED_ESTIMATION") return left_out("no such weights of losses");
  if (!has_unet(all)) return carried("uniform", kLeftUnread);
  return carried(word == "MIN_SNR_GAMMA" ? "uniform" : "debiased");
}

void loss_rows(Table& table) {
  table << rewritten("timestep_distribution", "timestep_sampling", sampling, "UNIFORM");
  table << rewritten("noising_bias", "logit_mean", [](const Value& value, const Settings& all) {
             return is(all, "LOGIT_NORMAL") ? carried(0 - number_of(value).value_or(0)) : left_out("");
           }).otherwise(0.0);
  table << rewritten("noising_weight", "logit_std", [](const Value& value, const Settings& all) {
             return is(all, "LOGIT_NORMAL") ? carried(number_of(value).value_or(0) + 1) : left_out("");
           }).otherwise(0.0);
  table << rewritten(
      "noising_weight", "mode_scale",
      [](const Value& value, const Settings& all) { return is(all, "HEAVY_TAIL") ? carried(value) : left_out(""); }, 0.0);
  auto by_table = [](const Value& value, const Settings& all) {
    return is(all, "BETA") || is(all, "INVERTED_PARABOLA") || is(all, "SIGMOID") ? carried(value) : left_out("");
  };
  table << rewritten("noising_weight", "noising_weight", by_table, 0.0) << rewritten("noising_bias", "noising_bias", by_table, 0.0);
  table << rewritten("timestep_shift", "discrete_flow_shift", unless(has_unet, same_value), 1.0);
  table << rewritten("dynamic_timestep_shifting", "", [](const Value& value, const Settings& all) {
    return left_out(!asks_for_something(value) || is(all, "LOGIT_NORMAL") ? ""
                                                                          : "only timestep_sampling flux_shift follows a picture's size");
  });
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0))); };
  table << rewritten("min_noising_strength", "max_timestep_boundary", share, 0.0);
  table << rewritten("max_noising_strength", "min_timestep_boundary", share, 1.0);
  table << rewritten("loss_weight_fn", "loss_weighting", loss_weights, "CONSTANT");
  table << rewritten("loss_weight_fn", "min_snr_gamma", [](const Value& value, const Settings& all) {
    const bool has_it = text_of(value) == "MIN_SNR_GAMMA" && has_unet(all);
    return has_it ? carried(all.number("loss_weight_strength").value_or(5)) : left_out("");
  });
  table << rewritten("mse_strength", "", [](const Value& value, const Settings&) {
             return left_out(number_of(value) == 1.0 ? "" : "the loss is the mean square, or loss_type huber or smooth_l1");
           }).otherwise(1.0);
  table << rewritten("offset_noise_weight", "noise_offset",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  auto masked = [](const Value& value, const Settings& all) { return all.on("masked_training") ? carried(value) : left_out(""); };
  table << switched("masked_training", "masked_loss", "column",
                    "of a folder masks are read by -masklabel, else they are named in the column `mask` of a metadata file");
  table << rewritten("unmasked_weight", "unmasked_weight", masked, 0.1);
  table << rewritten("normalize_masked_area_loss", "normalize_masked_area_loss", masked, false);
  table << rewritten("unmasked_probability", "", [](const Value&, const Settings& all) {
             return left_out(all.on("masked_training") ? "a mask counts at every visit" : "");
           }).otherwise(0.1);
  table << rewritten("masked_prior_preservation_weight", "masked_prior_preservation_weight", masked);
}

/// The rows of parts of a model.
void part_rows(Table& table) {
  for (const std::string part : kTextEncoders) {
    table << rewritten(
        part + ".dropout_probability", "caption_dropout",
        [part](const Value& value, const Settings& all) {
          if (!asks_for_something(value)) return left_out("");
          if (has_second_encoder(all))
            return left_out("each text encoder goes without its caption by itself; caption_dropout is for all of them");
          return part == "text_encoder" ? carried(value) : left_out("");
        },
        0.0);
  }
  table << rewritten(
      "transformer.attention_mask", "",
      [](const Value& value, const Settings& all) {
        bool told = asks_for_something(value) && (lower(all.text("model_type")) == "flux_dev_1" || has_third_encoder(all));
        return left_out(told ? "padding of texts is seen, as the model was trained" : "");
      },
      false);
}

Outcome destination(const Value& value, const Settings&) {
  auto path = std::filesystem::path(text_of(value));
  return path.empty() ? left_out("") : carried(path.replace_extension("").string(), "a folder here; files in it are step-N.safetensors");
}

void run_rows(Table& table) {
  table << rewritten("output_model_destination", "output_path", destination, "models/model.safetensors");
  table << rewritten("output_dtype", "save_dtype", precision, "FLOAT_32");
  table << rewritten("save_every", "save_steps",
                     [](const Value& value, const Settings& all) { return saves(value, all, "STEP", 1 / batches_per_update(all)); });
  table << rewritten("save_every", "save_epochs", [](const Value& value, const Settings& all) { return saves(value, all, "EPOCH", 1); });
  table << rewritten("save_every", "save_minutes", [](const Value& value, const Settings& all) {
    auto unit = all.text("save_every_unit");
    return unit == "HOUR"     ? saves(value, all, "HOUR", 60)
           : unit == "SECOND" ? saves(value, all, "SECOND", 1. / 60)
                              : saves(value, all, "MINUTE", 1);
  });
  table << rewritten(
      "validation", "",
      [](const Value& value, const Settings& all) {
        return left_out(asks_for_something(value) && !all.has("validation_path") ? "name held-out samples in validation_metadata_path"
                                                                                 : "");
      },
      false);
}

bool says_whole(const Settings& all) { return all.has("training_method"); }

Table table() {
  Table table;
  table << rows_in("onetrainer", {{"unet", has_unet}});
  model_rows(table);
  adapter_rows(table);
  table << embedding_rows();
  data_rows(table);
  loss_rows(table);
  optimizer_rows(table);
  train_rows(table);
  part_rows(table);
  run_rows(table);
  return table;
}

}  // namespace

}  // namespace burnish::foreign::of_onetrainer

namespace burnish::foreign {

Program onetrainer() {
  using namespace of_onetrainer;
  return {"onetrainer", "OneTrainer", recognises, arrange, table, nullptr, says_whole};
}

}  // namespace burnish::foreign
