// The recipes: what they take at full size by their plans, and plans of their settings beside runs of small models.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <regex>

#include "io/json.h"
#include "tests/golden.h"
#include "tests/places.h"
#include "tests/train/run/error_of_plan.h"
#include "train/options/check.h"

using namespace burnish;
namespace fs = std::filesystem;

namespace {

// Attention in bf16 on processors with AMX packs its inputs into buffers that no GPU needs and no plan counts.
[[maybe_unused]] const int kWithoutAmx = ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 0);

const fs::path kRecipes = fs::path(test::kCheckout) / "recipes";

struct Promise {
  std::string recipe, model;  ///< a name that `burnish plan` knows
  double gigabytes;           ///< of 1e9 bytes, that the device needs at most
  std::string memory = {};    ///< what the device has, where a text encoder is read block by block that does not fit into it
};
void PrintTo(const Promise& p, std::ostream* out) { *out << p.recipe; }

class Recipes : public testing::TestWithParam<Promise> {
 protected:
  std::string file() const { return (kRecipes / (GetParam().recipe + ".toml")).string(); }
};

const std::vector<Promise> kPromises{{"flux_full_80gb", "flux-dev", 56},
                                     {"flux_full_48gb", "flux-dev", 34},
                                     {"flux_full_24gb", "flux-dev", 22},
                                     {"flux_lora_24gb", "flux-dev", 22},
                                     {"flux_lora_16gb", "flux-dev", 15},
                                     {"flux_lora_12gb", "flux-dev", 11},
                                     {"flux_lora_8gb", "flux-dev", 7.5},
                                     {"qwen_image_lora_24gb", "qwen-image", 22},
                                     {"qwen_image_lora_16gb", "qwen-image", 15},
                                     {"sdxl_full_24gb", "sdxl", 18},
                                     {"sdxl_full_12gb", "sdxl", 11},
                                     {"sdxl_lora_8gb", "sdxl", 5},
                                     {"sd35_large_lora_24gb", "sd3.5-large", 22},
                                     {"sd35_large_lora_16gb", "sd3.5-large", 15},
                                     {"sd35_large_lora_12gb", "sd3.5-large", 10},
                                     {"sd35_medium_lora_12gb", "sd3.5-medium", 11},
                                     {"sd35_medium_lora_8gb", "sd3.5-medium", 7},
                                     {"longcat_image_lora_16gb", "longcat-image", 15.1},
                                     {"longcat_image_lora_12gb", "longcat-image", 11},
                                     {"longcat_image_lora_8gb", "longcat-image", 7.5, "8GB"},
                                     {"kandinsky5_lora_16gb", "kandinsky-5.0-t2i-lite-pretrain", 15.1},
                                     {"kandinsky5_lora_12gb", "kandinsky-5.0-t2i-lite-pretrain", 9},
                                     {"kandinsky5_lora_8gb", "kandinsky-5.0-t2i-lite-pretrain", 7.5, "8GB"},
                                     {"boogu_lora_24gb", "boogu-image-base", 17},
                                     {"boogu_lora_16gb", "boogu-image-base", 15},
                                     {"boogu_lora_12gb", "boogu-image-base", 11},
                                     {"fibo2_lora_24gb", "fibo-2.0-dev", 22},
                                     {"fibo2_lora_16gb", "fibo-2.0-dev", 15},
                                     {"fibo2_lora_12gb", "fibo-2.0-dev", 11},
                                     {"fibo2_lora_8gb", "fibo-2.0-dev", 7.5},
                                     {"flux2_dev_lora_32gb", "flux2-dev", 29},
                                     {"flux2_dev_lora_24gb", "flux2-dev", 22},
                                     {"flux3_klein_lora_12gb", "flux3-klein-base", 11},
                                     {"flux3_klein_lora_8gb", "flux3-klein-base", 7.5},
                                     {"anima_lora_6gb", "anima", 5.5},
                                     {"krea2_lora_24gb", "krea2-raw", 22},
                                     {"krea2_lora_16gb", "krea2-raw", 15},
                                     {"krea2_lora_12gb", "krea2-raw", 11},
                                     {"krea2_turbo_lora_24gb", "krea2-raw", 22},
                                     {"zimage_turbo_lora_24gb", "z-image-turbo", 15},
                                     {"ernie_image_lora_24gb", "ernie-image", 22},
                                     {"ernie_image_lora_16gb", "ernie-image", 15},
                                     {"ernie_image_lora_12gb", "ernie-image", 11},
                                     {"ernie_image_lora_8gb", "ernie-image", 7.5},
                                     {"moss_image_lora_24gb", "moss-image", 22},
                                     {"moss_image_lora_12gb", "moss-image", 11},
                                     {"moss_image_lora_8gb", "moss-image", 7.5, "8GB"},
                                     {"ideogram4_lora_24gb", "ideogram-4", 22},
                                     {"ideogram4_lora_16gb", "ideogram-4", 15.1},
                                     {"ideogram4_lora_12gb", "ideogram-4", 11},
                                     {"qwen_image_21_lora_24gb", "qwen-image-2.1", 22},
                                     {"qwen_image_21_lora_16gb", "qwen-image-2.1", 15},
                                     {"qwen_image_21_lora_12gb", "qwen-image-2.1", 11},
                                     {"minimax_h3_lora_24gb", "minimax-h3", 22, "24GB"},
                                     {"minimax_h3_lora_16gb", "minimax-h3", 15.6, "16GB"},
                                     {"minimax_h3_clips_lora_32gb", "minimax-h3", 29, "32GB"},
                                     {"ltx2_clips_lora_32gb", "ltx-2.3", 29, "32GB"},
                                     {"ltx2_clips_lora_24gb", "ltx-2.3", 23, "24GB"},
                                     {"wan_lora_48gb", "wan-t2v-14b", 40},
                                     {"wan_lora_24gb", "wan-t2v-14b", 22},
                                     {"wan_lora_16gb", "wan-t2v-14b", 14.5},
                                     {"wan_lora_12gb", "wan-t2v-14b", 11},
                                     {"wan_infinitetalk_lora_24gb", "wan-infinitetalk-14b", 22},
                                     {"wan_a14b_lora_24gb", "wan-t2v-a14b", 22},
                                     {"longcat_video_lora_24gb", "longcat-video", 22},
                                     {"longcat_video_lora_16gb", "longcat-video", 15}};

/// A small model of the same kind, and how many blocks each of the two has.
struct Small {
  std::string model;
  int64_t num_blocks = 1, num_small_blocks = 1;
  std::string second_expert = {};                  ///< a folder of golden files
  std::string size = "--height 128 --width 192 ";  ///< so large that little is what oneDNN copies in 16 bits
  std::vector<std::string> parts = {};             ///< golden files in place of the model's own
};
const std::map<std::string, Small> kSmall{
    {"flux-dev", {"flux", 57, 3}},
    {"qwen-image", {"qwen_image", 60, 3}},
    {"krea2-raw", {"krea2", 32, 7, "", "--height 256 --width 384 "}},
    {"z-image-turbo", {"zimage", 34, 3, "", "--height 256 --width 384 "}},
    {"flux2-dev", {"flux2_dev", 56, 4, "", "--height 256 --width 384 "}},
    {"flux3-klein-base", {"flux3", 43, 8, "", "--height 256 --width 384 "}},
    {"anima", {"anima", 34, 5, "", "--height 256 --width 384 "}},
    {"ernie-image", {"ernie_image", 36, 3, "", "--height 256 --width 384 "}},
    {"moss-image", {"moss_image", 42, 3, "", "--height 256 --width 384 "}},
    {"ideogram-4", {"ideogram4", 34, 3, "", "--height 512 --width 768 "}},
    {"fibo-2.0-dev", {"fibo2", 48, 8, "", "--height 256 --width 384 "}},
    {"qwen-image-2.1", {"qwen_image_21", 32, 3, "", "--height 256 --width 384 "}},
    {"minimax-h3", {"minimax_h3", 50, 3, "", "--height 256 --width 384 "}},
    {"ltx-2.3", {"ltx2", 48, 3, "", "--height 256 --width 384 "}},
    {"sdxl", {"sdxl", 1, 1}},
    {"sd3.5-large", {"sd3", 38, 3, "", "--height 256 --width 384 "}},
    {"sd3.5-medium", {"sd3", 24, 3, "", "--height 256 --width 384 "}},
    {"longcat-image", {"longcat_image", 30, 5, "", "--height 256 --width 384 "}},
    {"kandinsky-5.0-t2i-lite-pretrain", {"kandinsky5", 52, 5, "", "--height 256 --width 384 "}},
    {"boogu-image-base", {"boogu", 46, 7, "", "--height 256 --width 384 "}},
    {"longcat-video", {"longcat_video", 48, 2}},
    {"wan-t2v-14b", {"wan", 40, 2}},
    {"wan-t2v-a14b", {"wan", 40, 2, "wan_experts/low_noise_model"}},
    {"wan-infinitetalk-14b",
     {"wan",
      40,
      2,
      "",
      "--height 256 --width 384 --frame_rate 10 --tokenizer_path " + test::golden_path("wan_pipeline/model/tokenizer") +
          " --dataset_metadata_path " + test::golden_path("wan_talk/metadata.csv") + " ",
      {"wan_image/transformer", "wan_talk/infinitetalk.safetensors", "wan_image/image_encoder", "wav2vec2_base",
       "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"}}}};

/// Makes a folder of a small model with a second expert, which meets the first at a noise of 0.6.
std::string with_second(const std::string& model, const std::string& second, const fs::path& folder) {
  const auto golden = fs::path(test::kCheckout) / "tests/golden";
  fs::copy(model, folder, fs::copy_options::recursive);
  fs::copy(golden / second, folder / "transformer_2");
  auto index = io::read_json(folder / "model_index.json");
  index["transformer_2"] = index["transformer"];
  index["boundary_ratio"] = 0.6;
  std::ofstream(folder / "model_index.json") << index.dump();
  return folder.string();
}

}  // namespace

TEST_P(Recipes, StayWithinTheirPromiseAtFullSize) {
  auto options = test::options_of({"--config", file(), "--model", GetParam().model, "--device", "cuda", "--max_steps", "1000"});
  options.model.is_plan = true;
  options.plan.device_memory = GetParam().memory;
  auto plan = train::plan_memory(options);
  EXPECT_LE(static_cast<double>(plan.num_bytes()), GetParam().gigabytes * 1e9) << train::to_text(plan);
  EXPECT_GT(static_cast<double>(plan.num_bytes()), GetParam().gigabytes * 0.6e9) << "a promise that says nothing";
}

TEST_P(Recipes, ArePlannedAsTheyRunAtSmallSize) {
  test::Scratch scratch;
  const auto& small = kSmall.at(GetParam().model);
  auto options = test::options_of(test::small_run(small.model, small.size + "--batch_size 4 --plan off --config " + file()));
  if (!small.parts.empty()) options.model.model.clear();
  for (const auto& part : small.parts) options.model.model.push_back(test::golden_path(part));
  if (!small.second_expert.empty()) options.model.model = {with_second(options.model.model.at(0), small.second_expert, scratch / "model")};
  // With all levers pulled, and of the narrowest model, little is left beside what oneDNN copies in 16 bits, which depends on the
  // processor.
  if (GetParam().recipe == "sdxl_full_12gb" || GetParam().model == "flux2-dev") options.model.dtype = "fp32";
  options.step.memory.paged_blocks = options.step.memory.paged_blocks * small.num_small_blocks / small.num_blocks;
  EXPECT_NEAR(test::error_of_plan(options, scratch), 0, 0.03);
}

TEST(RecipeFiles, AreAllPromised) {
  std::set<std::string> files, promised;
  for (const auto& entry : fs::directory_iterator(kRecipes)) {
    if (entry.path().extension() == ".toml") files.insert(entry.path().stem().string());
  }
  for (const auto& promise : kPromises) promised.insert(promise.recipe);
  EXPECT_EQ(files, promised);
}

TEST(Goals, GoWithRecipesAndAreSettingsOfThem) {
  std::set<std::string> reached;
  for (const auto& goal : io::read_json(kRecipes / "goals.json")) {
    std::vector<std::string> arguments{"--device", "cuda", "--dataset_metadata_path", "metadata.json"};
    for (const auto& [name, value] : goal["settings"].items()) {
      arguments.push_back("--" + name);
      arguments.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    const std::regex fits(goal["recipes"].get<std::string>());  // the studio's pages know the same kind
    bool goes_with_one = false;
    for (const auto& promise : kPromises) {
      if (!std::regex_search(promise.recipe, fits)) continue;
      goes_with_one = true;
      reached.insert(promise.recipe);
      auto with = arguments;
      with.insert(with.end(), {"--config", (kRecipes / (promise.recipe + ".toml")).string(), "--model", promise.model});
      auto options = test::options_of(with);
      options.model.is_plan = true;  // on a machine without the device
      EXPECT_NO_THROW(train::check(options)) << goal["title"] << " " << promise.recipe;
    }
    EXPECT_TRUE(goes_with_one) << goal["title"];
  }
  EXPECT_EQ(std::ssize(reached), std::ssize(kPromises)) << "a recipe that goes with no goal";
}

INSTANTIATE_TEST_SUITE_P(Of, Recipes, testing::ValuesIn(kPromises), [](const auto& info) { return info.param.recipe; });
