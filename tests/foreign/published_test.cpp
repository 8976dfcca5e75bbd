// Every key that a program publishes, with its default: the lists in published/ are taken from the programs' own sources.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "base/text.h"
#include "foreign/program.h"
#include "tests/foreign/run_options.h"
#include "tests/places.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using test::RunOptions;

namespace {

struct Published {
  std::string key;
  Value absent;
};

std::vector<Published> published(const std::string& program) {
  std::ifstream file(std::string(test::kCheckout) + "/tests/foreign/published/" + program + ".txt");
  std::vector<Published> keys;
  for (std::string line; std::getline(file, line);) {
    auto equals = line.find(" = ");
    if (line.starts_with('#') || equals == line.npos) continue;
    keys.push_back({line.substr(0, equals), Value::parse(line.substr(equals + 3))});
  }
  return keys;
}

/// What settings become: the options that are written, and what is said.
std::set<std::string> lines_of(const foreign::Program& program, const Value& tree) {
  RunOptions options;
  foreign::Import imported;
  foreign::apply(program.table(), Settings(tree), true, options.fields, imported);
  std::set<std::string> lines;
  static const auto untouched = RunOptions().values();
  for (const auto& [name, text] : options.values()) {
    if (text != untouched.at(name)) lines.insert(name + " = " + text);
  }
  for (const auto* list : {&imported.not_carried, &imported.different}) {
    for (auto line : *list) {
      if (auto at = line.find(" (its default)"); at != line.npos) line.erase(at, 14);
      if (auto value = line.find(" = "), note = line.find(": "); value < note) line.erase(value, note - value);
      lines.insert(line);
    }
  }
  return lines;
}

void set(Value& tree, const std::string& key, const Value& value) {
  auto at = "/" + key;
  std::ranges::replace(at, '.', '/');
  tree[Value::json_pointer(at)] = value;
}

/// Settings of each kind that a program trains: a default counts under each.
std::vector<std::string> bases(const std::string& program) {
  static const std::map<std::string, std::vector<std::string>> kBases{
      {"onetrainer",
       {R"({"model_type": "STABLE_DIFFUSION_15", "training_method": "LORA", "concept": {"path": "x"}})",
        R"({"model_type": "STABLE_DIFFUSION_XL_10_BASE", "training_method": "FINE_TUNE", "concept": {"path": "x"}})",
        R"({"model_type": "FLUX_DEV_1", "training_method": "LORA", "peft_type": "LOKR", "ema": "GPU", "concept": {"path": "x"}})",
        R"({"model_type": "QWEN", "training_method": "LORA", "concept": {"path": "x"}, "optimizer": {"optimizer": "PRODIGY_PLUS_SCHEDULE_FREE"}})",
        R"({"model_type": "FLUX_DEV_1", "training_method": "LORA", "concept": {"path": "x"}, "masked_training": true, "learning_rate_scheduler": "COSINE_WITH_HARD_RESTARTS",
            "timestep_distribution": "LOGIT_NORMAL", "optimizer": {"optimizer": "CAME"}})"}},
      {"ai-toolkit",
       {R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": "flux"}, "dataset": {"folder_path": "x"}})",
        R"({"network": {"type": "lora"}, "model": {"arch": "sdxl"}, "train": {"train_text_encoder": true}})",
        R"({"network": {"type": "lokr"}, "model": {"arch": "sd1"}, "train": {"lr_scheduler": "linear", "optimizer": "prodigy"}})",
        R"({"train": {"noise_scheduler": "flowmatch", "optimizer": "adafactor", "ema_config": {"use_ema": true}}})",
        R"({"model": {"arch": "sd1"}, "embedding": {"trigger": "x"}})",
        R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": "wan22_14b_i2v"}, "dataset": {"folder_path": "x"}})",
        R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": "wan21"}, "dataset": {"auto_frame_count": true}})",
        R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": "minimax_h3"}, "dataset": {"num_frames": 39, "do_audio": true}})"}},
      {"kohya",
       {R"({"script": "train_network.py", "network_module": "networks.lora", "train_data_dir": "x"})",
        R"({"script": "sdxl_train_network.py", "train_data_dir": "x", "network_module": "networks.lora", "enable_bucket": true, "lr_scheduler": "polynomial"})",
        R"({"script": "flux_train_network.py", "train_data_dir": "x", "network_module": "networks.lora_flux", "optimizer_type": "Adafactor"})",
        R"({"script": "sdxl_train.py", "train_data_dir": "x", "train_text_encoder": true, "mixed_precision": "bf16", "lr_scheduler": "cosine_with_restarts"})",
        R"({"script": "flux_train.py", "train_data_dir": "x", "mixed_precision": "bf16"})",
        R"({"pretrained_model_name_or_path": "x", "train_data_dir": "x", "network_module": "networks.lora"})"}},
      {"musubi",
       {R"({"script": "qwen_image_train_network.py", "network_module": "networks.lora_qwen_image", "image_directory": "x", "model_version": "original"})",
        R"({"script": "krea2_train_network.py", "network_module": "networks.lora_krea2", "image_directory": "x", "dit_variant": "turbo"})",
        R"({"script": "zimage_train.py", "image_directory": "x", "mixed_precision": "bf16"})",
        R"({"script": "wan_train_network.py", "network_module": "networks.lora_wan", "video_directory": "x", "target_frames": [33]})",
        R"({"script": "wan_train_network.py", "network_module": "networks.lora_wan", "video_directory": "x", "frame_extraction": "uniform"})",
        R"({"script": "minimax_h3_train_network.py", "network_module": "networks.lora_minimax_h3", "image_directory": "x"})"}},
      {"simpletuner",
       {R"({"model_family": "flux", "model_type": "lora", "dataset": {"id": "x", "instance_data_dir": "x"}})",
        R"({"model_family": "sdxl", "optimizer": "optimi-lion", "lr_scheduler": "polynomial", "use_ema": true, "offset_noise": true})",
        R"({"model_family": "qwen_image", "model_type": "lora", "lora_type": "lycoris", "lycoris": {"algo": "lokr"}, "loss_type": "huber"})",
        R"({"model_family": "minimaxh3", "model_type": "lora", "distillation_method": "h3_drift"})",
        R"({"model_family": "ideogram", "model_type": "lora", "grad_clip_method": "norm", "lr_scheduler": "cosine", "assistant_lora_path": "x"})"}},
      {"diffusers",
       {R"({"script": "train_dreambooth_lora_flux.py", "instance_data_dir": "x"})",
        R"({"script": "train_dreambooth_lora_flux.py", "train_text_encoder": true, "lr_scheduler": "polynomial", "optimizer": "prodigy"})"}},
      {"diffusion-pipe",
       {R"({"model": {"type": "flux", "dtype": "bfloat16"}, "adapter": {"type": "lora", "rank": 4}, "optimizer": {"type": "adamw_optimi", "lr": 1e-4},
            "dataset": {"path": "x"}})",
        R"({"model": {"type": "sdxl", "dtype": "bfloat16"}, "optimizer": {"type": "Prodigy"}, "lr_scheduler": "cosine"})",
        R"({"model": {"type": "minimax_h3", "dtype": "bfloat16"}, "adapter": {"type": "lora", "rank": 4}})",
        R"({"model": {"type": "wan", "dtype": "bfloat16"}, "adapter": {"type": "lora", "rank": 4}, "dataset": {"frame_buckets": [1, 33]}})"}}};
  auto it = kBases.find(program);
  return it == kBases.end() ? std::vector<std::string>{"{}"} : it->second;
}

}  // namespace

TEST(PublishedKeys, EachHasARowOfItsOwn) {
  for (const auto& program : foreign::programs()) {
    std::set<std::string> named;
    for (const auto& row : program.table().rows) named.insert(row.theirs);
    auto keys = published(program.word);
    EXPECT_GT(keys.size(), 20u) << program.word;
    for (const auto& [key, absent] : keys) EXPECT_TRUE(named.contains(key)) << program.word << ": " << key;
  }
}

TEST(PublishedKeys, RowsHaveTheProgramsDefaults) {
  for (const auto& program : foreign::programs()) {
    std::map<std::string, Value> of_key;
    for (const auto& [key, absent] : published(program.word)) of_key[key] = absent;
    for (const auto& row : program.table().rows) {
      auto it = of_key.find(row.theirs);
      if (it == of_key.end() || row.absent.is_null() || it->second.is_null()) continue;
      EXPECT_TRUE(foreign::means_the_same(row.absent, it->second))
          << program.word << ": " << row.theirs << " is " << row.absent << ", not " << it->second;
    }
  }
}

TEST(PublishedKeys, ASettingThatIsLeftOutGivesWhatItsDefaultGives) {
  for (const auto& program : foreign::programs()) {
    for (const auto& base : bases(program.word)) {
      auto tree = Value::parse(base);
      const auto without = lines_of(program, tree);
      for (const auto& [key, absent] : published(program.word)) {
        if (absent.is_null() || Settings(tree).has(key) || (key == "network.type" && !tree.contains("network"))) continue;
        auto with_default = tree;
        set(with_default, key, absent);
        EXPECT_THAT(lines_of(program, with_default), ::testing::ContainerEq(without))
            << program.word << " " << base << ": " << key << " = " << absent;
      }
    }
  }
}

TEST(PublishedKeys, NothingIsNeedlessByTheStartOfItsName) {
  Settings none{Value::object()};
  for (const auto& program : foreign::programs()) {
    for (const auto& row : program.table().rows) {
      if (!row.convert) {
        EXPECT_FALSE(row.why_needless.empty()) << program.word << ": " << row.theirs;
      }
      if (!row.theirs.ends_with("*")) continue;
      ASSERT_TRUE(row.convert) << program.word << ": " << row.theirs;
      EXPECT_FALSE(row.convert("a value", none).note.empty()) << program.word << ": " << row.theirs;
    }
  }
}

/// Every row's option is one of a run's.
TEST(PublishedKeys, RowsNameOptionsOfARun) {
  RunOptions options;
  auto names = options.fields.names();
  EXPECT_GT(names.size(), 100u);
  for (const auto& program : foreign::programs()) {
    for (const auto& row : program.table().rows)
      EXPECT_TRUE(row.ours.empty() || contains(names, row.ours)) << program.word << ": " << row.theirs << " -> " << row.ours;
  }
}
