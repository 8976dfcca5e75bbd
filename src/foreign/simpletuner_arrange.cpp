#include "foreign/simpletuner_arrange.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "foreign/prompts.h"
#include "foreign/simpletuner_data.h"
#include "foreign/simpletuner_h3.h"
#include "foreign/simpletuner_model.h"

namespace burnish::foreign::of_simpletuner {

namespace {

/// Names in config.env that are not the options' own in capitals.
const std::map<std::string, std::string> kOfEnvironment{{"RESUME_CHECKPOINT", "resume_from_checkpoint"},
                                                        {"DATALOADER_CONFIG", "data_backend_config"},
                                                        {"TRAINING_SEED", "seed"},
                                                        {"MINIMUM_RESOLUTION", "minimum_image_size"},
                                                        {"MAX_NUM_STEPS", "max_train_steps"},
                                                        {"NUM_EPOCHS", "num_train_epochs"},
                                                        {"CHECKPOINTING_STEPS", "checkpoint_step_interval"},
                                                        {"CHECKPOINTING_LIMIT", "checkpoints_total_limit"},
                                                        {"HUB_MODEL_NAME", "hub_model_id"},
                                                        {"MODEL_NAME", "pretrained_model_name_or_path"},
                                                        {"USE_GRADIENT_CHECKPOINTING", "gradient_checkpointing"},
                                                        {"LR_SCHEDULE", "lr_scheduler"},
                                                        {"VALIDATION_STEPS", "validation_step_interval"},
                                                        {"PUSH_CHECKPOINTS", "push_checkpoints_to_hub"},
                                                        {"TRAINING_NUM_PROCESSES", "num_processes"},
                                                        {"TRAINING_NUM_MACHINES", "num_machines"},
                                                        {"TRAINING_DYNAMO_BACKEND", "dynamo_backend"},
                                                        {"TRAINER_DYNAMO_BACKEND", "dynamo_backend"}};
/// Options that were called otherwise before.
const std::map<std::string, std::string> kOlderNames{{"checkpointing_steps", "checkpoint_step_interval"},
                                                     {"validation_steps", "validation_step_interval"}};

/// The settings by the options' own names, whether they had their dashes or were the environment's.
Value by_option(const Value& tree) {
  auto options = Value::object();
  for (const auto& [key, value] : tree.items()) {
    auto name = key.substr(std::min(key.size(), key.find_first_not_of('-')));
    if (name == "TRAINER_EXTRA_ARGS") {
      options.update(parse_command_line(text_of(value)));
      continue;
    }
    if (auto it = kOfEnvironment.find(name); it != kOfEnvironment.end()) name = it->second;
    name = lower(name);
    if (auto it = kOlderNames.find(name); it != kOlderNames.end()) name = it->second;
    options[name] = value;
  }
  return options;
}

/// "1024x768" or "1024", of several the first.
std::vector<int64_t> sides_of_preview(std::string text) {
  text = text.substr(0, text.find(','));
  std::ranges::replace(text, 'x', ',');
  return sides_of(text);
}

PromptLine line_of(const std::string& prompt, const Settings& all) {
  PromptLine line{.prompt = prompt};
  const auto sides = sides_of_preview(all.text("validation_resolution", "256"));
  if (!sides.empty()) line.width = sides[0], line.height = sides[1];
  line.steps = static_cast<int64_t>(all.number("validation_num_inference_steps").value_or(30));
  if (auto seed = all.number("validation_seed")) line.seed = static_cast<int64_t>(*seed);
  const bool embeds = family(all) == "flux";
  line.guidance = embeds ? all.number("validation_guidance_real").value_or(1.0) : all.number("validation_guidance").value_or(7.5);
  if (number_of(line.guidance) > 1.0) line.negative = all.text("validation_negative_prompt", "blurry, cropped, ugly");
  if (auto frames = all.number("validation_num_video_frames")) line.frames = static_cast<int64_t>(*frames);
  return line;
}

void put_prompts(Arranged& arranged, const Open& open) {
  const Settings all(arranged.tree);
  if (all.on("validation_disable")) return;
  std::vector<PromptLine> lines;
  if (all.on("validation_prompt")) lines.push_back(line_of(all.text("validation_prompt"), all));
  if (const auto library = all.on("user_prompt_library") ? open(all.text("user_prompt_library")) : Value(); library.is_object()) {
    for (const auto& [name, prompt] : library.items()) {
      const auto& text = prompt.is_object() ? prompt.value("prompt", Value()) : prompt;
      if (text.is_string()) lines.push_back(line_of(text.get<std::string>(), all));
    }
    arranged.tree.erase("user_prompt_library");
  }
  if (lines.empty()) return;
  arranged.prompts_from = "validation_prompt";
  put_lines(lines, arranged);
  arranged.tree["preview_steps"] = static_cast<int64_t>(std::max(0.0, all.number("validation_step_interval").value_or(100)));
}

}  // namespace

bool recognises(const Value& tree) {
  if (is_simpletuner_data(tree)) return true;
  const auto has = [&](const char* name) { return tree.is_object() && tree.contains(name); };
  return has("model_family") || has("--model_family") || has("MODEL_FAMILY") || has("data_backend_config") ||
         has("--data_backend_config") || has("DATALOADER_CONFIG");
}

Arranged arrange(Value tree, const Open& open) {
  if (tree.is_array()) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    put_simpletuner_datasets(tree, arranged);
    return arranged;
  }
  Arranged arranged{.tree = by_option(tree)};
  auto& options = arranged.tree;
  if (options.contains("optimizer_config") && asks_for_something(options["optimizer_config"])) {
    options["optimizer_numbers"] = named_arguments(Value(split_list(text_of(options["optimizer_config"]))));
    options.erase("optimizer_config");
  }
  const auto lycoris = text_of(options.value("lycoris_config", Value("config/lycoris_config.json")));
  if (lower(text_of(options.value("lora_type", Value()))) == "lycoris") {
    if (auto file = open(lycoris); file.is_object()) options["lycoris"] = file;
  }
  put_h3_drift(options);
  put_prompts(arranged, open);
  if (auto list = open(text_of(options.value("data_backend_config", Value("")))); is_simpletuner_data(list)) {
    options.erase("data_backend_config");
    put_simpletuner_datasets(list, arranged);
  }
  return arranged;
}

}  // namespace burnish::foreign::of_simpletuner
