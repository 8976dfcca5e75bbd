#include "foreign/onetrainer_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/text.h"

// Names and defaults: modules/util/config/TrainConfig.py of OneTrainer.
namespace burnish::foreign {

static const char* const kToTheEnd = "vectors are kept in fp32 and train to the end of the run";

/// Those of its optimizers that change what is learned where they are not as the program has them, and those that do not.
std::vector<Row> onetrainer_numbers(const OptimizerOf& optimizer_of) {
  Table table;
  const std::string prefix = "optimizer.";
  auto all_of = [&](std::vector<Key> keys) {
    for (auto& key : keys) key.name = prefix + key.name;
    return keys;
  };
  table << no_place(all_of({{"adam_w_mode", false},
                            "alpha",
                            "amsgrad",
                            {"bias_correction", false},
                            {"centered", false},
                            "dampening",
                            "initial_accumulator_value",
                            "initial_accumulator",
                            "lr_decay",
                            "max_unorm",
                            {"maximize", false},
                            {"no_prox", false},
                            {"decoupled_decay", false},
                            {"fixed_decay", false},
                            {"rectify", false},
                            {"degenerated_to_sgd", false},
                            "k",
                            "xi",
                            "n_sma_threshold",
                            {"ams_bound", false},
                            {"adanorm", false},
                            {"adam_debias", false},
                            {"cautious", false},
                            "prodigy_steps",
                            {"use_speed", false},
                            {"use_cautious", false},
                            {"use_grams", false},
                            {"use_adopt", false},
                            {"use_orthograd", false},
                            {"nnmf_factor", false},
                            {"orthogonal_gradient", false},
                            {"use_atan2", false},
                            {"use_AdEMAMix", false},
                            "beta3_ema",
                            "alpha_grad",
                            "beta1_warmup",
                            "min_beta1",
                            {"Simplified_AdEMAMix", false},
                            {"kourkoutas_beta", false},
                            "schedulefree_c",
                            "muon_hidden_layers",
                            {"muon_adam_regex", false},
                            "muon_te1_adam_lr",
                            "muon_te2_adam_lr",
                            {"normuon_variant", false},
                            "beta2_normuon",
                            {"low_rank_ortho", false},
                            "ortho_rank",
                            {"accelerated_ns", false},
                            {"cautious_wd", false},
                            {"approx_mars", false},
                            {"auto_kappa_p", false}}),
                    "no number of the optimizers here");
  auto of = [&](const char* name, Value absent, const char* optimizer, const std::string& why) {
    table << rewritten(prefix + name, "",
                       [optimizer_of, absent, optimizer = std::string(optimizer), why](const Value& value, const Settings& all) {
                         return left_out(optimizer_of(all) == optimizer && !means_the_same(value, absent) ? why : "");
                       })
                 .otherwise(absent);
  };
  for (const char* name :
       {"weight_decay_by_lr", "split_groups", "factored", "factored_fp32", "use_stableadamw", "d_limiter", "use_schedulefree"})
    of(name, true, "prodigy_schedulefree", "is always on here");
  of("split_groups_mean", true, "prodigy_schedulefree", "groups find their rates by themselves");
  of("rms_rescaling", true, "muon", "updates have AdamW's size here");
  of("MuonWithAuxAdam", false, "", "");
  of("muon_adam_lr", nullptr, "muon", "what is no matrix trains at learning_rate; lr_groups says otherwise");
  of("weight_decouple", nullptr, "", "");
  table << no_place(all_of({"muon_adam_config"}), "beta1, beta2 and eps of what is no matrix go into optimizer_args");
  table << needless(all_of({{"block_wise", false},
                            {"capturable", false},
                            {"differentiable", false},
                            {"foreach", false},
                            {"fsdp_in_use", false},
                            {"fused", false},
                            "log_every",
                            "min_8bit_size",
                            "quant_block_size",
                            "optim_bits",
                            "percentile_clipping",
                            {"use_triton", false},
                            {"compile", false},
                            {"is_paged", false}}),
                    "says how the same update is computed and kept");
  return table.rows;
}

namespace {

/// Of machines elsewhere.
std::vector<Row> of_elsewhere() {
  Table table;
  table << needless({"secrets.huggingface_token",
                     "secrets.cloud.api_key",
                     "secrets.cloud.id",
                     "secrets.cloud.host",
                     {"secrets.cloud.port", 0},
                     {"secrets.cloud.user", "root"},
                     "secrets.cloud.key_file",
                     "secrets.cloud.password"},
                    "nothing is sent elsewhere");
  table << needless({{"cloud.type", "RUNPOD"},
                     {"cloud.file_sync", "NATIVE_SCP"},
                     {"cloud.create", false},
                     {"cloud.name", "OneTrainer"},
                     {"cloud.tensorboard_tunnel", true},
                     "cloud.sub_type",
                     "cloud.gpu_type",
                     {"cloud.volume_size", 100},
                     {"cloud.min_download", 0},
                     {"cloud.remote_dir", "/workspace"},
                     {"cloud.huggingface_cache_dir", "/workspace/huggingface_cache"},
                     {"cloud.onetrainer_dir", "/workspace/OneTrainer"},
                     "cloud.install_cmd",
                     {"cloud.install_onetrainer", true},
                     {"cloud.update_onetrainer", true},
                     {"cloud.detach_trainer", false},
                     {"cloud.run_id", "job1"},
                     {"cloud.download_samples", true},
                     {"cloud.download_output_model", true},
                     {"cloud.download_saves", true},
                     {"cloud.download_backups", false},
                     {"cloud.download_tensorboard", false},
                     {"cloud.delete_workspace", false},
                     {"cloud.on_finish", "NONE"},
                     {"cloud.on_error", "NONE"},
                     {"cloud.on_detached_finish", "NONE"},
                     {"cloud.on_detached_error", "NONE"}},
                    "cloud.enabled asks for it, and that is told");
  return table.rows;
}

}  // namespace

/// What changes nothing of what is learned.
std::vector<Row> onetrainer_needless() {
  Table table;
  table << needless({"text_encoder_3_layer_skip", "text_encoder_4_layer_skip"}, "a part that the models trained here do not have");
  table << needless({"__version", "optimizer.__version"}, "names of all versions are read")
        << needless({"optimizer_defaults"}, "other optimizers' numbers, for the window");
  table << needless({{"workspace_dir", "workspace/run"},
                     {"cache_dir", "workspace-cache/run"},
                     {"debug_dir", "debug"},
                     {"debug_mode", false},
                     {"huggingface_cache_dir", ""},
                     {"prevent_overwrites", false},
                     {"include_train_config", "NONE"},
                     {"save_filename_prefix", ""}},
                    "says where files lie, which output_path and cache_path do here");
  table << needless({{"offline_mode", false}}, "files that are there are not fetched");
  table << needless({{"tensorboard_expose", false},
                     {"tensorboard_always_on", false},
                     {"tensorboard_port", 6006},
                     {"samples_to_tensorboard", true},
                     {"sample_image_format", "JPG"},
                     {"sample_video_format", "MP4"},
                     {"sample_audio_format", "MP3"},
                     {"sample_skip_first", 0}},
                    "says how a run is shown");
  table << needless({{"validate_after", 1}, {"validate_after_unit", "EPOCH"}}, "validation_steps says when held-out samples are judged");
  table << needless({{"train_device", "cuda"},
                     {"temp_device", "cpu"},
                     {"device_indexes", ""},
                     {"enable_async_offloading", true},
                     {"async_offloading", true},
                     {"enable_autocast_cache", true},
                     {"fallback_train_dtype", "BFLOAT_16"},
                     "weight_dtype",
                     {"compile", false},
                     {"attention_mechanism", "SDP"},
                     {"gradient_reduce_precision", "FLOAT_32_STOCHASTIC"},
                     {"fused_gradient_reduce", true},
                     {"async_gradient_reduce", true},
                     {"async_gradient_reduce_buffer", 100}},
                    "says how the same is computed");
  table << needless({{"latent_caching", true}, {"clear_cache_before_training", true}},
                    "what frozen models make is computed once, and anew where it changed");
  table << needless({{"backup_after", 30},
                     {"backup_after_unit", "MINUTE"},
                     {"rolling_backup", false},
                     {"rolling_backup_count", 3},
                     {"backup_before_save", true}},
                    "state is written with every save");
  table << needless({"svd_dtype", "svd_rank", {"quantization.svd_dtype", "NONE"}, {"quantization.svd_rank", 16}, "quantization.cache_dir"},
                    "weights in few bits have no further part of low rank here, and their formats are told");
  table << no_place({"quantization.layer_filter", {"quantization.layer_filter_preset", "full"}, {"quantization.layer_filter_regex", false}},
                    "high_precision_layers says which layers stay as they are");
  table << needless({{"embedding_weight_dtype", "FLOAT_32"},
                     "embedding.uuid",
                     {"embedding.train", true},
                     "embedding.stop_training_after",
                     {"embedding.stop_training_after_unit", "NEVER"}},
                    kToTheEnd);
  table << of_elsewhere();
  return table.rows;
}

bool is_onetrainer_embedding(const Settings& all) { return all.text("training_method") == "EMBEDDING"; }

static bool has_words(const Settings& all) { return is_onetrainer_embedding(all) || all.on(kWordBeside); }
static bool has_one_word(const Settings& all) { return has_words(all) && !all.on(kSeveralWords); }

/// The words of a run in OneTrainer's order (TrainConfig.all_embedding_configs), by the names that they have there.
static std::vector<std::pair<std::string, Value>> words_in(const Value& tree) {
  std::vector<std::pair<std::string, Value>> words;
  const auto additional = tree.value("additional_embeddings", Value::array());
  for (size_t i = 0; additional.is_array() && i < additional.size(); ++i) {
    if (additional[i].is_object()) words.emplace_back(fmt::format("additional_embeddings[{}]", i), additional[i]);
  }
  if (tree.value("training_method", Value("")) == "EMBEDDING") words.emplace_back("embedding", tree.value("embedding", Value::object()));
  return words;
}

static void add_word(OptionFile& tables, const Value& word) {
  tables.add_table();
  tables.set("embedding_token", text_of(word.value("placeholder", Value("<embedding>"))));
  const auto file = text_of(word.value("model_name", Value("")));
  if (!file.empty()) {
    tables.set("embedding_checkpoint", config::seen_from(file, std::filesystem::current_path()));
  } else {
    tables.set("embedding_length", static_cast<int64_t>(number_of(word.value("token_count", Value(1))).value_or(1)));
    tables.set("embedding_init", text_of(word.value("initial_embedding_text", Value("*"))));
  }
  if (word.value("is_output_embedding", false)) tables.set("embedding_output", true);
}

void put_words(Value& tree, Arranged& arranged) {
  auto words = words_in(tree);
  std::erase_if(words, [&](const auto& word) {
    if (word.second.value("train", true) || word.first == "embedding") return false;
    arranged.not_carried.push_back(word.first + ".train = false: all words of a run train; lr_groups gives one the rate 0");
    return true;
  });
  tree.erase("additional_embeddings");
  if (words.empty()) return;
  if (tree.value("training_method", Value("")) != "EMBEDDING") tree[kWordBeside] = true;
  if (words.size() == 1) {
    tree["embedding"] = words.front().second;
    return;
  }
  tree[kSeveralWords] = true;
  tree.erase("embedding");
  OptionFile tables{"embedding_config", "embeddings", "# Words that train, by `burnish import`.\n", "additional_embeddings"};
  for (const auto& [name, word] : words) {
    add_word(tables, word);
    if (text_of(word.value("stop_training_after_unit", Value("NEVER"))) != "NEVER")
      arranged.not_carried.push_back(name + ".stop_training_after: " + kToTheEnd);
  }
  arranged.option_files.push_back(std::move(tables));
}

std::vector<Row> onetrainer_embedding() {
  Table table;
  auto of_word = [](const Value& value, const Settings& all) { return has_one_word(all) ? carried(value) : left_out(""); };
  auto of_words = [](const Value& value, const Settings& all) { return has_words(all) ? carried(value) : left_out(""); };
  table << rewritten("embedding.placeholder", "embedding_token", of_word, "<embedding>")
        << rewritten(
               "embedding.token_count", "embedding_length",
               [](const Value& value, const Settings& all) {
                 return has_one_word(all) && !all.on("embedding.model_name") ? carried(value) : left_out("");
               },
               1)
        << rewritten("embedding.initial_embedding_text", "embedding_init", of_word, "*")
        << rewritten("embedding.is_output_embedding", "embedding_output", of_word, false)
        << rewritten("preserve_embedding_norm", "embedding_keep_norm", of_words, false)
        << rewritten("embedding.model_name", "embedding_checkpoint",
                     [](const Value& value, const Settings& all) {
                       return has_one_word(all) && asks_for_something(value) ? carried(value) : left_out("");
                     })
        << rewritten("embedding_learning_rate", "embedding_learning_rate", [](const Value& value, const Settings& all) {
             return has_words(all) && asks_for_something(value) ? carried(value) : left_out("");
           });
  table << rewritten("training_method", "embedding_format",
                     [](const Value&, const Settings& all) { return is_onetrainer_embedding(all) ? carried("onetrainer") : left_out(""); });
  table << looked_at({kWordBeside, kSeveralWords, "additional_embeddings"});
  table << rewritten("bundle_additional_embeddings", "embedding_bundle", [](const Value& value, const Settings& all) {
             return all.on(kWordBeside) && all.text("training_method") == "LORA" ? carried(asks_for_something(value)) : left_out("");
           }).otherwise(true);
  for (const char* encoder : {"text_encoder", "text_encoder_2", "text_encoder_3", "text_encoder_4"}) {
    table << rewritten(
        std::string(encoder) + ".train_embedding", "",
        [](const Value& value, const Settings& all) {
          const bool is_told = is_onetrainer_embedding(all) && !asks_for_something(value);
          return left_out(is_told ? "embedding_models names the encoders whose vectors train" : "");
        },
        true);
  }
  return table.rows;
}

namespace {

/// A way to change pictures: one word says how much, and which of two switches is on whether that is drawn. The random one goes first.
void change_rows(Table& table, const std::string& what, const std::string& amount, double most) {
  const auto image = std::string("concept.image."), random = image + "enable_random_" + what;
  const auto carry = [=](const Value& value, const Settings& all, bool is_fixed) {
    const auto number = all.number(image + amount).value_or(0);
    const auto clamped = std::clamp(is_fixed ? number : std::abs(number), -most, most);
    return asks_for_something(value) && number != 0 && !(is_fixed && all.on(random)) ? carried(clamped) : left_out("");
  };
  table << rewritten(random, "random_" + what, [carry](const Value& value, const Settings& all) { return carry(value, all, false); })
        << rewritten(image + "enable_fixed_" + what, "fixed_" + what,
                     [carry](const Value& value, const Settings& all) { return carry(value, all, true); });
  table << looked_at({{image + amount, 0.0}});
}

void change_rows(Table& table) {
  table << rewritten("concept.image.enable_random_flip", "random_flip", [](const Value& value, const Settings&) {
    return carried(asks_for_something(value));
  }) << rewritten("concept.image.enable_fixed_flip", "fixed_flip", [](const Value& value, const Settings& all) {
    return asks_for_something(value) && !all.on("concept.image.enable_random_flip") ? carried(true) : left_out("");
  });
  change_rows(table, "rotate", "random_rotate_max_angle", 360);
  for (const std::string what : {"brightness", "contrast", "saturation"}) change_rows(table, what, "random_" + what + "_max_strength", 10);
  change_rows(table, "hue", "random_hue_max_strength", 1);
}

}  // namespace

std::vector<Row> onetrainer_concepts() {
  Table table;
  table << no_place({"concept.image.enable_random_circular_mask_shrink", "concept.image.enable_random_mask_rotate_crop"},
                    "masks stay as they are, but for being cut, mirrored and turned with their pictures");
  change_rows(table);
  table << same("class_set", "class_metadata_path")
        << same("class_target", "class_target", "the class set has as many visits as the other samples together, whatever its balancing");
  table << needless({"concept.name", {"concept.enabled", true}, {"concept.type", "STANDARD"}}, "it chooses among concepts, which is done")
        << needless({"concept.seed"}, "seed names every draw of the run")
        << needless({"concept.concept_stats"}, "counted anew by `burnish data`");
  table << no_place({{"concept.image_variations", 1}},
                    "cache_variants says in how many ways a picture that is changed anew at each visit is seen")
        << needless({{"concept.text_variations", 1}}, "captions are drawn anew at every visit");
  table << looked_at({{"concept.balancing_strategy", "REPEATS"}});
  table << needless({"concept.text.prompt_path"}, "prompt_source asks for it, and that is told");
  table << no_place({{"concept.text.tag_dropout_special_tags_mode", "NONE"}}, "all tags are left out alike but the first (keep_tokens)")
        << needless({"concept.text.tag_dropout_special_tags", "concept.text.tag_dropout_special_tags_regex"},
                    "the mode asks for them, and that is told");
  for (const auto& key : std::vector<Key>{{"concept.text.caps_randomize_mode", "capslock, title, first, random"},
                                          {"concept.text.caps_randomize_probability", 0.0},
                                          {"concept.text.caps_randomize_lowercase", false}})
    table << needless({key}, "caps_randomize_enable asks for it, and that is told");
  return table.rows;
}

std::vector<Row> onetrainer_other_part(const std::string& part) {
  const std::string absent_part = "a part that the models trained here do not have, or that does not train";
  const bool is_unconditional = part == "unconditional_transformer";
  auto name = [&](const char* key) { return part + "." + key; };
  Table table;
  table << needless({{name("train"), !is_unconditional},
                     name("stop_training_after"),
                     {name("stop_training_after_unit"), part.starts_with("text_encoder") ? "EPOCH" : "NEVER"},
                     name("learning_rate"),
                     {name("weight_dtype"), "FLOAT_32"},
                     {name("gradient_checkpointing"), !is_unconditional},
                     {name("offload_fraction"), 0.0},
                     {name("activation_offloading"), false}},
                    absent_part);
  if (part != "vae") table << needless({name("model_name")}, absent_part);
  return table.rows;
}

Outcome prompt_of_concept(const Value& value, const Settings& all) {
  auto source = text_of(value);
  if (source == "sample") return left_out("");
  auto path = all.text("concept.text.prompt_path");
  std::error_code failed;
  bool is_file = source == "concept" && std::filesystem::is_regular_file(path, failed);
  std::ifstream file(is_file ? path : "");
  std::vector<std::string> prompts;
  for (std::string line; prompts.size() < 2 && std::getline(file, line);) {
    if (auto prompt = trim(line); !prompt.empty()) prompts.emplace_back(prompt);
  }
  if (prompts.size() == 1 && is_utf8(prompts[0])) return carried(prompts[0], "the caption of pictures that have no text file");
  return left_out("captions are in a text file beside each picture, or in a metadata file; class_tokens is one for all that have none");
}

}  // namespace burnish::foreign
