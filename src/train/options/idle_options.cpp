#include "train/options/idle_options.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"

namespace burnish::train {

namespace {

bool samples_with(const TrainOptions& o, std::initializer_list<const char*> schemes) {
  return std::ranges::find(schemes, o.timestep_sampling) != schemes.end();
}
bool shifts(const TrainOptions& o) {
  return samples_with(o, {"shift", "sigma", "logit_normal", "mode", "heavy_tail", "cos_map", "inverted_parabola", "logistic", "beta"});
}
bool scales_normals(const TrainOptions& o) { return samples_with(o, {"sigmoid", "shift", "flux_shift", "qwen_shift", "krea2_shift"}); }
bool is_logit_normal(const TrainOptions& o) { return samples_with(o, {"logit_normal", "logsnr"}); }
bool has_mode(const TrainOptions& o) { return samples_with(o, {"mode", "heavy_tail"}); }
bool has_noising(const TrainOptions& o) { return samples_with(o, {"inverted_parabola", "logistic", "beta"}); }

bool is_robust(const TrainOptions& o) { return o.loss_type != "l2"; }
bool scales_threshold(const TrainOptions& o) { return is_robust(o) && o.huber_schedule != "snr"; }

/// Datasets of a dataset_config begin with the run's options, and may add what these belong to.
bool each_says(const TrainOptions& o) { return !o.dataset_config.empty(); }
bool buckets(const TrainOptions& o) { return each_says(o) || o.dataset.enable_bucket; }
bool kohyas_buckets(const TrainOptions& o) { return each_says(o) || (o.dataset.enable_bucket && o.dataset.bucket_rule == "kohya"); }
bool has_resolutions(const TrainOptions& o) { return each_says(o) || o.dataset.resolution.size() > 1; }
bool keeps_shapes(const TrainOptions& o) { return each_says(o) || (o.dataset.height == 0 && o.dataset.resolution.empty()); }
bool changes_tags(const TrainOptions& o) { return each_says(o) || o.dataset.shuffle_caption || o.dataset.caption_tag_dropout_rate > 0; }

bool has_adapters(const TrainOptions& o) { return o.trainable_models.empty() || !o.lora_base_model.empty() || !o.lora_checkpoint.empty(); }
bool may_be(const TrainOptions& o, const char* type) { return o.lora_type == type || !o.lora_checkpoint.empty(); }
bool is_lokr(const TrainOptions& o) { return has_adapters(o) && may_be(o, "lokr"); }
bool is_dora(const TrainOptions& o) { return has_adapters(o) && may_be(o, "dora"); }
bool trains_encoders(const TrainOptions& o) {
  auto names = o.trainable_models + "," + o.lora_base_model;
  return !o.lora_checkpoint.empty() || names.find("encoder") != names.npos || names.find("vae") != names.npos;
}

/// Rates of named components are judged by their names.
bool has_other_rates(const TrainOptions& o) { return o.text_encoder_lr.find('=') != std::string::npos || trains_encoders(o); }

bool has_mask_column(const TrainOptions& o) { return o.masked_loss == "column"; }
bool has_references(const TrainOptions& o) { return !reference_column(o).empty(); }
bool has_previews(const TrainOptions& o) { return !o.preview_prompts.empty(); }

struct Rule {
  bool (*counts)(const TrainOptions&);
  const char* belongs_to;
  std::vector<const char*> options;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules{
      {shifts, "a timestep_sampling that shifts (shift, sigma, logit_normal, ...)", {"discrete_flow_shift"}},
      {scales_normals, "timestep_sampling sigmoid, shift, flux_shift, qwen_shift and krea2_shift", {"sigmoid_scale"}},
      {is_logit_normal, "timestep_sampling logit_normal and logsnr", {"logit_mean", "logit_std"}},
      {has_mode, "timestep_sampling mode and heavy_tail", {"mode_scale"}},
      {has_noising, "timestep_sampling inverted_parabola, logistic and beta", {"noising_weight", "noising_bias"}},
      {is_robust, "loss_type huber and smooth_l1", {"huber_c", "huber_schedule"}},
      {scales_threshold, "loss_type huber and smooth_l1 with huber_schedule constant or exponential", {"huber_scale"}},
      {buckets, "enable_bucket", {"bucket_rule", "bucket_no_upscale", "bucket_reso_steps"}},
      {kohyas_buckets, "enable_bucket with bucket_rule kohya", {"min_bucket_reso", "max_bucket_reso"}},
      {has_resolutions, "several values of resolution", {"multi_resolution"}},
      {keeps_shapes, "pictures that keep their shape, without height, width and resolution", {"max_pixels"}},
      {changes_tags,
       "shuffle_caption or caption_tag_dropout_rate",
       {"keep_tokens", "keep_tokens_separator", "caption_separator", "secondary_separator"}},
      {has_adapters,
       "an adapter, and trainable_models asks for none (lora_base_model does)",
       {"use_rslora", "lora_dropout", "lora_format"}},
      {is_lokr, "lora_type lokr", {"lokr_factor"}},
      {is_dora, "lora_type dora", {"dora_norm"}},
      {has_other_rates,
       "components besides the denoiser that train; name them in lora_base_model or trainable_models",
       {"text_encoder_lr"}},
      {has_mask_column, "masked_loss column", {"mask_column"}},
      {has_references,
       "extra_inputs that name reference pictures",
       {"reference_prompt", "reference_pixels", "processor_path", "zero_cond_t"}},
      {has_previews, "preview_prompts", {"preview_num_inference_steps"}},
  };
  return kRules;
}

/// Of a run over a cache: how its samples were encoded is settled. What a pasted command repeats at its own value is no wish.
bool reads_samples(const TrainOptions& o) { return encodes(o) || !o.validation_metadata_path.empty(); }
bool reads_captions(const TrainOptions& o) { return reads_samples(o) || has_previews(o) || trains_encoders(o); }
bool runs_autoencoder(const TrainOptions& o) { return reads_captions(o); }
const std::vector<Rule>& rules_of_caches() {
  static const char* const kPlace = "the command that makes the cache";
  static const std::vector<Rule> kRules{
      {reads_samples, kPlace, {"height", "width", "max_pixels", "resolution", "multi_resolution", "enable_bucket"}},
      {reads_samples, kPlace, {"caption_extension", "caption_prefix", "caption_suffix"}},
      {reads_captions, kPlace, {"max_sequence_length"}},
      {runs_autoencoder, kPlace, {"vae_tile_size"}},
  };
  return kRules;
}

/// The names of options that do not have the value they have by themselves.
std::vector<std::string> changed(TrainOptions o) {
  TrainOptions untouched;
  config::Fields of_o, of_untouched;
  fields(of_o, o);
  fields(of_untouched, untouched);
  std::vector<std::string> names;
  for (size_t i = 0; i < of_o.list().size(); ++i) {
    if (config::value_text(of_o.list()[i]) != config::value_text(of_untouched.list()[i])) names.push_back(of_o.list()[i].name);
  }
  return names;
}

}  // namespace

std::vector<IdleOption> idle_options(const TrainOptions& o) {
  std::vector<IdleOption> idle;
  auto add = [&](const std::vector<Rule>& all, const std::vector<std::string>& asked) {
    for (const auto& rule : all) {
      for (const char* option : rule.options) {
        if (contains(asked, option) && !rule.counts(o)) idle.push_back({option, rule.belongs_to});
      }
    }
  };
  auto asked = changed(o);
  add(rules_of_caches(), asked);
  asked.insert(asked.end(), o.given.begin(), o.given.end());
  add(rules(), asked);
  for (const auto& [option, otherwise] : default_objective_options()) {
    auto tasks = objectives_with(option);
    if (!contains(asked, option) || contains(tasks, objective_of(o).word)) continue;
    idle.push_back({option, (tasks.size() > 1 ? "the tasks " : "task ") + join(tasks, " and ")});
  }
  return idle;
}

std::vector<IdleOption> repeated_options(const TrainOptions& o) {
  auto asked = changed(o);
  asked.insert(asked.end(), o.given.begin(), o.given.end());
  if (!contains(asked, "data_file_keys") || reads_samples(o)) return {};
  return {{"data_file_keys", "the command that makes the cache"}};
}

void reset(TrainOptions& o, const std::string& option) {
  TrainOptions untouched;
  config::Fields of_o, of_untouched;
  fields(of_o, o);
  fields(of_untouched, untouched);
  for (size_t i = 0; i < of_o.list().size(); ++i) {
    if (of_o.list()[i].name != option) continue;
    std::visit([&](auto* slot) { *slot = *std::get<decltype(slot)>(of_untouched.list()[i].slot); }, of_o.list()[i].slot);
  }
}

}  // namespace burnish::train
