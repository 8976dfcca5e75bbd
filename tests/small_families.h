#pragma once
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "tests/places.h"

// The small models of tests/golden/make_NAME.py, which every grid of families takes: a new family is a row here.
namespace burnish::test {

struct SmallFamily {
  std::string name;                                                      ///< NAME_pipeline below tests/golden holds its model
  std::vector<std::string> parts{"transformer", "text_encoder", "vae"};  ///< folders with weights, the denoiser's first
  int64_t height = 48, width = 64;                                       ///< of the pictures of its runs
  /// Its data below tests/golden: four pictures or clips.
  struct Rows {
    std::string metadata = "pipeline/pictures/metadata.csv";
    int64_t num_frames = 1;               ///< of clips
    std::vector<std::string> words = {};  ///< further words that name them
  };
  Rows rows = {};
  std::string model_of = "";        ///< the row whose model it is, with data of another kind; "": it has its own
  bool keeps_time_in_fp32 = false;  ///< what is made of the time, in files too
  bool makes_few_tokens = false;    ///< a quarter of what others make of a picture
  bool needs_index = false;         ///< whether model_index.json has numbers that no part tells
  bool runs_parts_by_text = false;  ///< whether layers of the denoiser run once for each text of a batch

  bool is_of_clips() const { return rows.num_frames > 1; }
  bool has_own_model() const { return model_of.empty(); }
  std::string pipeline() const { return name == "flux" ? "pipeline" : (has_own_model() ? name : model_of) + "_pipeline"; }
  std::filesystem::path folder() const { return golden() / pipeline() / "model"; }
  std::string denoiser() const { return parts[0] == "unet" ? "unet" : "dit"; }
  bool has(const std::string& part) const { return std::ranges::count(parts, part) > 0; }
  /// The names of two layers of every attention.
  std::string query_and_value() const {
    return name == "moss_image" ? "proj.q,proj.v" : name == "kandinsky5" ? "to_query,to_value" : "to_q,to_v";
  }
  bool is_transformer() const { return parts[0] == "transformer" || parts[0] == "dit"; }

  /// Tokenizers that are not in its folder; assets/tiny-flux has them.
  std::vector<std::string> lacks() const {
    if (name == "flux") return {"tokenizer", "tokenizer_2"};
    const bool has_one =
        exists(folder() / "tokenizer") || exists(folder() / "text_encoder/tokenizer.json") || exists(folder() / "processor/tokenizer.json");
    return has_one ? std::vector<std::string>{} : std::vector<std::string>{"tokenizer"};
  }
  /// The words of a command line that name its model.
  std::vector<std::string> model_words() const {
    const auto assets = std::filesystem::path(test::kCheckout) / "assets/tiny-flux";
    std::vector<std::string> words{"--model", folder().string()};
    for (const auto& tokenizer : lacks()) words.insert(words.end(), {"--" + tokenizer + "_path", (assets / tokenizer).string()});
    return words;
  }
  /// Its data: four pictures, pictures of three layers, or clips.
  std::vector<std::string> data_words() const {
    std::vector<std::string> words{"--dataset_metadata_path", (golden() / rows.metadata).string()};
    if (is_of_clips()) words.insert(words.end(), {"--num_frames", std::to_string(rows.num_frames)});
    words.insert(words.end(), rows.words.begin(), rows.words.end());
    return words;
  }

  /// The same in one piece for a shell: in fp32, and with pictures of its size.
  std::string model() const { return quoted(model_words()) + "--dtype fp32 "; }
  std::string data() const {
    return quoted(data_words()) + "--height " + std::to_string(height) + " --width " + std::to_string(width) + " ";
  }

 private:
  static std::filesystem::path golden() { return std::filesystem::path(test::kCheckout) / "tests/golden"; }
  static std::string quoted(const std::vector<std::string>& words) {
    std::string all;
    for (const auto& word : words) all += "'" + word + "' ";
    return all;
  }
};
inline void PrintTo(const SmallFamily& family, std::ostream* out) { *out << family.name; }

inline const std::vector<SmallFamily>& small_families() {
  static const std::vector<SmallFamily> kFamilies{
      {.name = "flux", .parts = {"transformer", "text_encoder", "text_encoder_2", "vae"}},
      {.name = "sdxl", .parts = {"unet", "text_encoder", "text_encoder_2", "vae"}, .height = 40},
      {.name = "sd15", .parts = {"unet", "text_encoder", "vae"}, .height = 128, .width = 192},  // make_stable_diffusion_runs.py says why
      {.name = "zimage"},
      {.name = "flux2", .makes_few_tokens = true},
      {.name = "flux2_dev", .makes_few_tokens = true},
      {.name = "flux3", .makes_few_tokens = true},
      {.name = "ernie_image", .makes_few_tokens = true},
      {.name = "moss_image", .makes_few_tokens = true},
      {.name = "ideogram4", .parts = {"transformer", "unconditional_transformer", "text_encoder", "vae"}, .makes_few_tokens = true},
      {.name = "fibo2", .makes_few_tokens = true, .runs_parts_by_text = true},
      {.name = "chroma"},
      {.name = "longcat_image"},
      {.name = "boogu", .parts = {"transformer", "mllm", "vae"}, .runs_parts_by_text = true},
      {.name = "kandinsky5", .parts = {"transformer", "text_encoder", "text_encoder_2", "vae"}, .keeps_time_in_fp32 = true},
      {.name = "sd3", .parts = {"transformer", "text_encoder", "text_encoder_2", "text_encoder_3", "vae"}},
      {.name = "qwen_image"},
      {.name = "qwen_layered", .rows = {"qwen_layered_pipeline/layers/metadata.json"}},
      {.name = "qwen_image_21", .height = 64, .makes_few_tokens = true},
      {.name = "minimax_h3", .height = 64, .keeps_time_in_fp32 = true, .makes_few_tokens = true},
      {.name = "minimax_h3_clips",
       .parts = {"transformer", "text_encoder", "vae", "audio_vae"},
       .height = 32,
       .rows = {"minimax_h3_clips/metadata.csv", 22, {"--extra_inputs", "input_audio"}},
       .model_of = "minimax_h3",
       .keeps_time_in_fp32 = true},
      {.name = "minimax_h3_references",
       .parts = {"transformer", "text_encoder", "vae", "audio_vae"},
       .height = 32,
       .rows = {"minimax_h3_references/metadata.json",
                22,
                {"--extra_inputs", "input_audio,references", "--reference_pixels", "2048"}},  // else a small model would see hours
       .model_of = "minimax_h3",
       .keeps_time_in_fp32 = true},
      {.name = "ltx2", .parts = {"transformer", "text_encoder", "connectors", "vae"}, .height = 64, .makes_few_tokens = true},
      {.name = "krea2", .needs_index = true, .runs_parts_by_text = true},
      {.name = "anima", .parts = {"transformer", "text_conditioner", "text_encoder", "vae"}},
      {.name = "longcat_video",
       .parts = {"dit", "text_encoder", "vae"},
       .rows = {"wan_clips/metadata.csv", 9, {"--frame_rate", "16"}},
       .keeps_time_in_fp32 = true},
      {.name = "longcat_video_first",
       .parts = {"dit", "text_encoder", "vae"},
       .rows = {"wan_clips/metadata.csv", 9, {"--frame_rate", "16", "--extra_inputs", "input_image"}},
       .model_of = "longcat_video",
       .keeps_time_in_fp32 = true},
      {.name = "wan", .rows = {"wan_clips/metadata.csv", 9, {"--frame_rate", "16"}}, .keeps_time_in_fp32 = true}};
  return kFamilies;
}

inline const SmallFamily& small_family(const std::string& name) { return *std::ranges::find(small_families(), name, &SmallFamily::name); }

/// Those for which `of` holds, SmallFamily::has_own_model for example.
template <class Of>
std::vector<SmallFamily> small_families(Of of) {
  std::vector<SmallFamily> some;
  std::ranges::copy_if(small_families(), std::back_inserter(some), of);
  return some;
}

}  // namespace burnish::test
