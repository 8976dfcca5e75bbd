#include "foreign/kohya_gui.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"

// Names and what is made of them: kohya_gui/lora_gui.py and dreambooth_gui.py of kohya_ss.
namespace burnish::foreign {

namespace of_kohya_gui {
namespace {

/// Names in a text, with a blank between them.
template <typename Names>
Names names_in(const std::string& text) {
  const auto names = split_list(text, ' ');
  return {names.begin(), names.end()};
}

/// Options of sd-scripts that the window calls otherwise.
const std::map<std::string, std::string> kRenamed{{"max_resolution", "resolution"},
                                                  {"optimizer", "optimizer_type"},
                                                  {"lora_network_weights", "network_weights"},
                                                  {"image_folder", "train_data_dir"}};

/// Prefixes of options of one kind of model, and the window's question for that kind.
const std::pair<std::string, const char*> kPrefixes[] = {{"sdxl_", "sdxl"}, {"flux1_", "flux1_checkbox"}, {"sd3_", "sd3_checkbox"}};

/// Zero is a value of these, and not as much as not given.
const auto kZeroCounts = names_in<std::set<std::string>>("network_alpha max_grad_norm");

/// Options that count for one kind of model, noise or network alone.
const auto kOfFlows = names_in<std::set<std::string>>(
    "ae discrete_flow_shift timestep_sampling guidance_scale split_mode train_blocks model_prediction_type mem_eff_save");
const auto kOfBoth = names_in<std::set<std::string>>("clip_l t5xxl blocks_to_swap apply_t5_attn_mask t5xxl_max_token_length");
const auto kOfThreeEncoders =
    names_in<std::set<std::string>>("logit_mean logit_std mode_scale weighting_scheme clip_g t5xxl_device t5xxl_dtype");
const auto kOfNetworks = names_in<std::set<std::string>>(
    "network_dim network_alpha network_dropout network_weights dim_from_weights unet_lr text_encoder_lr scale_weight_norms");

/// Options of the program that starts training, and those that have become others.
const auto kOfTheProgram = names_in<std::set<std::string>>(
    "LoRA_type sdxl sdxl_checkbox flux1_checkbox sd3_checkbox epoch lr_warmup noise_offset_type additional_parameters optimizer_args "
    "lr_scheduler_args conv_dim conv_alpha factor decompose_both rank_dropout module_dropout dora_wd LyCORIS_preset model_list "
    "num_cpu_threads_per_process gpu_ids multi_gpu num_machines num_processes main_process_port extra_accelerate_launch_args "
    "sdxl_no_half_vae save_as_bool create_buckets create_caption train_dir use_latent_files generate_caption_database "
    "generate_image_buckets full_path");

/// Options of one algorithm of its networks.
const auto kOfAlgorithms = names_in<std::set<std::string>>(
    "unit use_cp use_tucker use_scalar train_on_input train_norm bypass_mode constrain rescaled rank_dropout_scale block_dims "
    "block_alphas conv_dims conv_alphas conv_block_dims conv_block_alphas block_lr_zero_threshold down_lr_weight mid_lr_weight "
    "up_lr_weight");

const auto kOfLyCORIS = names_in<std::vector<std::string>>(
    "use_cp use_tucker use_scalar train_on_input train_norm bypass_mode constrain rescaled rank_dropout_scale");
const auto kOfBlocks = names_in<std::vector<std::string>>(
    "block_dims block_alphas conv_block_dims conv_block_alphas down_lr_weight mid_lr_weight up_lr_weight block_lr_zero_threshold");

std::string script_of(const Settings& gui) {
  bool is_network = gui.has("LoRA_type");
  const bool is_xl = gui.on("sdxl") || gui.on("sdxl_checkbox");
  if (gui.has("token_string")) return is_xl ? "sdxl_train_textual_inversion.py" : "train_textual_inversion.py";
  if (gui.on("flux1_checkbox")) return is_network ? "flux_train_network.py" : "flux_train.py";
  if (gui.on("sd3_checkbox")) return is_network ? "sd3_train_network.py" : "sd3_train.py";
  if (is_xl) return is_network ? "sdxl_train_network.py" : "sdxl_train.py";
  if (is_network) return "train_network.py";
  return gui.has("image_folder") || gui.has("train_dir") ? "fine_tune.py" : "train_db.py";
}

/// Names an option of the window as sd-scripts does.
std::string name_of(std::string name, const Settings& gui) {
  for (const auto& [prefix, question] : kPrefixes) {
    if (name.starts_with(prefix) && gui.on(question)) name = name.substr(prefix.size());
  }
  auto it = kRenamed.find(name);
  return it == kRenamed.end() ? name : it->second;
}

/// The module of a LoRA_type, and the arguments that choose the algorithm in it.
void add_network(const Settings& gui, Value& options) {
  auto type = gui.text("LoRA_type");
  static const std::map<std::string, std::string> kAlgorithms{{"LoCon", "locon"},           {"LyCORIS/LoCon", "locon"},
                                                              {"LyCORIS/LoHa", "loha"},     {"LyCORIS/LoKr", "lokr"},
                                                              {"LyCORIS/BOFT", "boft"},     {"LyCORIS/Diag-OFT", "diag-oft"},
                                                              {"LyCORIS/DyLoRA", "dylora"}, {"LyCORIS/GLoRA", "glora"},
                                                              {"LyCORIS/iA3", "ia3"},       {"LyCORIS/Native Fine-Tuning", "full"}};
  static const std::map<std::string, std::string> kModules{{"Standard", "networks.lora"},   {"Kohya LoCon", "networks.lora"},
                                                           {"Flux1", "networks.lora_flux"}, {"Kohya DyLoRA", "networks.dylora"},
                                                           {"LoRA-FA", "networks.lora_fa"}, {"SD3", "networks.lora_sd3"}};
  auto algorithm = kAlgorithms.find(type);
  auto module = kModules.find(type);
  options["network_module"] = algorithm != kAlgorithms.end() ? "lycoris.kohya" : module != kModules.end() ? module->second : type;
  auto arguments = Value::array();
  if (algorithm != kAlgorithms.end()) arguments.push_back("algo=" + algorithm->second);
  bool has_convolutions = algorithm != kAlgorithms.end() || type == "Kohya LoCon";
  for (const std::string name : {"conv_dim", "conv_alpha", "rank_dropout", "module_dropout", "dora_wd", "factor", "decompose_both"}) {
    if (gui.on(name) && (has_convolutions || !name.starts_with("conv_"))) arguments.push_back(name + "=" + gui.text(name));
  }
  // What a kind of network reads beside, as far as it asks for something: told, for there is nothing like it here.
  for (const auto& name : algorithm != kAlgorithms.end() ? kOfLyCORIS : kOfBlocks) {
    if (gui.on(name) && !(name == "rank_dropout_scale" && !gui.on("rank_dropout"))) arguments.push_back(name + "=" + gui.text(name));
  }
  if (auto preset = lower(gui.text("LyCORIS_preset", "full")); algorithm != kAlgorithms.end() && preset != "full")
    arguments.push_back("preset=" + preset);
  if (!arguments.empty()) options["network_args"] = arguments;
  bool unet = gui.number("unet_lr").value_or(0) != 0, encoders = gui.number("text_encoder_lr").value_or(0) != 0;
  if (unet && !encoders) options["network_train_unet_only"] = true;
  if (encoders && !unet) options["network_train_text_encoder_only"] = true;
}

/// Adds how long it trains: epochs say it unless one of the limits does, and a warm-up is a percentage.
void add_length(const Settings& gui, Value& options) {
  for (const char* name : {"max_train_epochs", "max_train_steps", "lr_warmup_steps"}) {
    options.erase(name);
    if (gui.number(name).value_or(0) > 0) options[name] = *gui.number(name);
  }
  if (options.contains("max_train_epochs")) options.erase("max_train_steps");
  else if (!options.contains("max_train_steps")) options["max_train_epochs"] = gui.number("epoch").value_or(1);
  auto percent = gui.number("lr_warmup").value_or(0);
  if (!options.contains("lr_warmup_steps") && percent > 0) options["lr_warmup_steps"] = percent / 100;
}

/// Words of a text that is handed on to a command line.
Value words_of(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  auto words = Value::array();
  for (const auto& word : split_list(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

bool counts(const std::string& name, const Settings& gui) {
  if (kOfTheProgram.contains(name) || kOfAlgorithms.contains(name) || name.starts_with("dynamo_")) return false;
  const bool has_three = gui.on("sd3_checkbox");
  if (kOfBoth.contains(name)) return has_three || gui.on("flux1_checkbox");
  if (kOfFlows.contains(name)) return gui.on("flux1_checkbox");
  if (std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                  [&](const auto& prefix) { return name.starts_with(prefix.first) && !gui.on(prefix.second); }))
    return false;
  if (kOfThreeEncoders.contains(name)) return has_three;
  if (kOfNetworks.contains(name)) return gui.has("LoRA_type");
  bool is_multires = gui.text("noise_offset_type") == "Multires";
  if (name.starts_with("multires_noise")) return is_multires;
  if (name == "noise_offset" || name == "adaptive_noise_scale" || name == "noise_offset_random_strength") return !is_multires;
  return true;
}

}  // namespace
}  // namespace of_kohya_gui

bool is_kohya_gui(const Value& tree) { return tree.is_object() && (tree.contains("LoRA_type") || tree.contains("max_resolution")); }

Value options_of_kohya_gui(const Value& tree) {
  using namespace of_kohya_gui;
  Settings gui(tree);
  auto options = Value::object();
  for (const auto& [name, value] : tree.items()) {
    auto ours = name_of(name, gui);
    if (!counts(ours, gui) || !counts(name, gui) || (!asks_for_something(value) && !kZeroCounts.contains(name))) continue;
    auto number = value.is_string() ? number_of(value) : std::nullopt;  // its fields are texts
    options[ours] = number ? Value(*number) : value;
  }
  for (const char* name : {"optimizer_args", "lr_scheduler_args"}) {
    if (auto words = words_of(gui.text(name)); !words.empty()) options[name] = words;
  }
  options["script"] = script_of(gui);
  for (const std::string captions : {"object", "style"}) {
    if (gui.has("token_string") && gui.text("template") == captions + " template") options["use_" + captions + "_template"] = true;
  }
  options.erase("template");
  add_length(gui, options);
  if (gui.has("LoRA_type")) add_network(gui, options);
  if (auto more = gui.text("additional_parameters"); !more.empty()) options.update(parse_command_line(more));
  return options;
}

}  // namespace burnish::foreign
