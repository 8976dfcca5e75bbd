// What DiffSynth-Studio's units make of clips for models of Wan that read more than a text (tests/golden/make_wan_caches.py), beside what
// burnish makes of them itself.
#include <gmock/gmock.h>

#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_small.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const fs::path kVaceModel = golden_path("wan_vace"), kFrames = golden_path("wan_frames/ti2v"), kCaches = golden_path("wan_caches");

struct CacheCase {
  const char* name;  ///< of the cache
  SmallWan small;
  std::string inputs;                                     ///< extra_inputs
  std::vector<std::pair<std::string, fs::path>> columns;  ///< of the row, beside its clip and caption
  fs::path clip = kWanClips / "0.webp";
  int64_t width = 64;
};
void PrintTo(const CacheCase& c, std::ostream* out) { *out << c.name; }

std::vector<CacheCase> cases() {
  const fs::path seeing = kWanImage / "transformer", plain = kWan / "model/transformer";
  const std::vector<std::pair<std::string, fs::path>> controls{{"control_video", kWanClips / "1.webp"},
                                                               {"reference_image", kWanClips / "2.webp"}};
  return {
      {"i2v", {.transformer = seeing, .has_clip = true}, "input_image", {}},
      {"flf2v", {.transformer = seeing, .has_clip = true, .has_places = true}, "input_image,end_image", {}},
      {"ti2v", {.transformer = kFrames / "transformer", .vae = kFrames / "vae"}, "input_image", {}},
      {"vace",
       {.transformer = kVaceModel / "transformer"},
       "vace_video,vace_video_mask,vace_reference_image",
       {{"vace_video", kVaceModel / "video.webp"},
        {"vace_video_mask", kVaceModel / "mask.webp"},
        {"vace_reference_image", kVaceModel / "reference.png"}},
       kVaceModel / "video.webp",
       48},
      {"control", {.transformer = plain, .in_channels = 52, .has_reference = true}, "control_video,reference_image", controls},
      {"control_2_1",
       {.transformer = seeing, .in_channels = 48, .has_clip = true, .has_reference = true},
       "control_video,reference_image,input_image",
       controls},
  };
}

class WanCaches : public BadInput, public testing::WithParamInterface<CacheCase> {
 protected:
  std::string model() const {
    const auto& small = GetParam().small;
    const auto folder = at("transformer");
    if (!fs::exists(folder)) {
      fs::create_directories(folder);
      auto config = nlohmann::json::parse(read_file(small.transformer / "config.json"));
      io::save_safetensors(folder / kTransformerFile, transformer_of(small, small.transformer, config));
      std::ofstream(folder / "config.json") << config.dump();
    }
    auto parts = option("model", folder) + option("model", kWan / "model/text_encoder") +
                 option("tokenizer_path", kWan / "model/tokenizer") +
                 option("model", small.vae == "original" ? kWan / "model/vae" : small.vae);
    if (small.has_clip) parts += option("model", kWanImage / "image_encoder");
    return parts + "--dtype fp32 --extra_inputs " + GetParam().inputs + " ";
  }
  std::string data() const {
    const auto& c = GetParam();
    nlohmann::json row{{"video", c.clip.string()}, {"prompt", "red apple"}};
    for (const auto& [column, file] : c.columns) row[column] = file.string();
    return option("dataset_metadata_path", write("rows.json", nlohmann::json::array({row}).dump())) + "--height 32 --width " +
           std::to_string(c.width) + " --num_frames 5 ";
  }
  void ok(const std::string& arguments) const {
    auto out = run_burnish(arguments);
    ASSERT_EQ(out.exit_code, 0) << arguments << "\n" << out.output;
  }
  /// Losses and gradient norms of a run on a cache.
  std::vector<nlohmann::json> trained(const std::string& name, const fs::path& cache) const {
    ok("train " + model() + "--task sft:train --lora_rank 2 --max_steps 4 --learning_rate 1e-3 " + option("dataset_base_path", cache) +
       option("output_path", at(name)));
    return read_log(at(name));
  }
};

}  // namespace

TEST_P(WanCaches, TrainAsOnesOfItsOwn) {
  ok("train " + model() + data() + "--task sft:data_process --max_sequence_length 16 " + option("output_path", at("own")));
  const auto expected = trained("expected", at("own"));
  fs::create_directories(at("theirs"));
  fs::copy_file(kCaches / (std::string(GetParam().name) + ".pth"), at("theirs/0.pth"));
  const auto log = trained("direct", at("theirs"));
  ASSERT_EQ(log.size(), 4U);
  for (size_t i = 0; i < log.size(); ++i) {
    const double loss = expected.at(i)["loss"], norm = expected[i]["grad_norm"];
    EXPECT_NEAR(log[i]["loss"], loss, 2e-6 * loss) << i;
    EXPECT_NEAR(log[i]["grad_norm"], norm, 1e-5 * norm) << i;
  }
  ok("cache " + model() + option("import_diffsynth", at("theirs")) + option("cache_path", at("imported")));
  const auto imported = trained("of_import", at("imported"));
  for (size_t i = 0; i < log.size(); ++i) EXPECT_EQ(imported.at(i)["loss"], log[i]["loss"]) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, WanCaches, testing::ValuesIn(cases()), [](const auto& info) { return std::string(info.param.name); });
