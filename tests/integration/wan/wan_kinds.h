#pragma once
#include <functional>

#include "tests/integration/wan/wan_experts.h"

// Small models of every kind of Wan, each with clips and the columns that it reads.
namespace burnish::test {

struct WanModelAndData {
  std::string model, data, columns = {};  ///< arguments; columns: what extra_inputs are to name, with commas between
};

struct WanKind {
  std::string name;
  /// Makes what a run of it needs, in a folder of the test's.
  std::function<WanModelAndData(const fs::path& folder)> made;
  std::string denoisers = "dit";  ///< with commas between
  std::string module = "";        ///< a module that trains beside the transformer
  std::string whole_blocks = "dit.blocks.1";
  bool runs_once = true;  ///< whether a block runs its layers once; of one that does not, chunks and updates in backward do not go together
  bool module_is_updated_in_backward = true;  ///< not where a weight of the module gets its gradient from several blocks

  /// A module that is part of a denoiser has adapters by the names of its layers.
  std::string adapted_module() const {
    const auto dot = module.find('.');
    if (dot == module.npos) return "--lora_base_model " + module + " ";
    return "--lora_base_model " + module.substr(0, dot) + " --lora_target_modules '" + module.substr(dot + 1) + "\\..*' ";
  }
  std::string in_full() const { return "--trainable_models " + denoisers + " "; }
};
inline void PrintTo(const WanKind& kind, std::ostream* out) { *out << kind.name; }

/// Metadata of the clips of kWanClips with further columns; {} in a cell is the row's number.
inline std::string wan_clips_with(const fs::path& folder, const std::string& columns, const std::string& cells, int64_t height = 48) {
  std::ofstream metadata(folder / "clips.csv");
  metadata << "video,prompt" << (columns.empty() ? "" : ",") << columns << "\n";
  for (int row = 0; row < 4; ++row) {
    auto own = cells;
    for (auto at = own.find("{}"); at != own.npos; at = own.find("{}")) own.replace(at, 2, std::to_string(row));
    metadata << row << ".webp,red apple" << (own.empty() ? "" : ",") << own << "\n";
  }
  return option("dataset_metadata_path", folder / "clips.csv") + option("dataset_base_path", kWanClips) + "--height " +
         std::to_string(height) + " --width 64 --num_frames 9 --frame_rate 16 ";
}

/// wan_from_frame without its columns.
inline std::string wan_from_frame_alone(const std::string& name) {
  auto model = wan_from_frame(name);
  return model.substr(0, model.find("--extra_inputs"));
}

inline const WanKind kT2vKind{"t2v", [](const fs::path& folder) { return WanModelAndData{wan_model(), wan_clips_with(folder, "", "")}; }};
inline const WanKind kExpertsKind{"experts",
                                  [](const fs::path& folder) {
                                    if (!fs::exists(folder / "experts")) make_wan_experts(folder / "experts");
                                    return WanModelAndData{wan_model(folder / "experts"), wan_clips_with(folder, "", "")};
                                  },
                                  "dit,dit_2", "", "dit.blocks.1,dit_2.blocks.1"};
inline const WanKind kI2vKind{"i2v", [](const fs::path& folder) {
                                const fs::path of_image = golden_path("wan_image");
                                return WanModelAndData{wan_parts({of_image / "transformer", of_image / "image_encoder"}),
                                                       wan_clips_with(folder, "", ""), "input_image"};
                              }};
inline const WanKind kTi2vKind{"ti2v", [](const fs::path& folder) {
                                 return WanModelAndData{wan_from_frame_alone("ti2v"), wan_clips_with(folder, "", "", 32), "input_image"};
                               }};
inline const WanKind kVaceKind{"vace",
                               [](const fs::path& folder) {
                                 const fs::path of_vace = golden_path("wan_vace");
                                 return WanModelAndData{wan_parts({of_vace / "transformer"}),
                                                        wan_clips_with(folder, "vace_video,vace_reference_image", "{}.webp,{}.webp"),
                                                        "vace_video,vace_reference_image"};
                               },
                               "dit", "vace"};
inline const WanKind kAnimateKind{
    "animate",
    [](const fs::path&) {
      const fs::path animated = golden_path("wan_animate");
      return WanModelAndData{
          wan_parts({animated / "transformer", fs::path(golden_path("wan_image/image_encoder"))}),
          option("dataset_metadata_path", animated / "faces/metadata.csv") + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ",
          "input_image,animate_pose_video,animate_face_video"};
    },
    "dit",
    "animate_adapter",
    "dit.blocks.1",
    /*runs_once=*/true,
    /*module_is_updated_in_backward=*/false};
inline const WanKind kDrivingKind{
    "driving",
    [](const fs::path&) {
      const fs::path driven = golden_path("wan_animate2");
      return WanModelAndData{
          wan_parts({driven / "transformer", fs::path(golden_path("wan_image/image_encoder"))}),
          option("dataset_metadata_path", driven / "metadata.json") + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ",
          "animate2_prompt_ref,animate2_reference_image,animate2_reference_video"};
    },
    "dit",
    "",
    "dit.blocks.1",
    /*runs_once=*/false};
/// Both ways at once: a row animates a picture, and the other replaces a person by two.
inline const WanKind kScailKind{
    "scail", [](const fs::path&) {
      const fs::path acted = golden_path("wan_scail");
      return WanModelAndData{
          wan_parts({acted / "transformer", fs::path(golden_path("wan_image/image_encoder"))}),
          option("dataset_metadata_path", acted / "metadata.json") + "--height 32 --width 64 --num_frames 5 --frame_rate 10 ",
          "scail2_reference_image,scail2_reference_mask,scail2_driving_video,scail2_driving_mask,scail2_replace"};
    }};
inline const WanKind kSpeechKind{"s2v",
                                 [](const fs::path&) {
                                   const fs::path speaking = golden_path("wan_speech");
                                   return WanModelAndData{wan_parts({speaking / "transformer", fs::path(golden_path("wav2vec2"))}),
                                                          option("dataset_metadata_path", speaking / "sounds/metadata.csv") +
                                                              "--height 48 --width 64 --num_frames 5 --frame_rate 10 ",
                                                          "input_image,input_audio,s2v_pose_video"};
                                 },
                                 "dit", "dit.audio_injector"};
/// The transformer of picture to video, with what InfiniteTalk adds in a file of its own.
inline std::string wan_talk_model() {
  const fs::path of_image = golden_path("wan_image");
  return wan_parts({of_image / "transformer", fs::path(golden_path("wan_talk/infinitetalk.safetensors")), of_image / "image_encoder",
                    fs::path(golden_path("wav2vec2_base"))});
}
inline const WanKind kTalkKind{"talk",
                               [](const fs::path&) {
                                 return WanModelAndData{wan_talk_model(),
                                                        option("dataset_metadata_path", golden_path("wan_talk/metadata.csv")) +
                                                            "--height 48 --width 64 --num_frames 5 --frame_rate 10 ",
                                                        "input_image,input_audio"};
                               },
                               "dit", "dit.audio_proj"};

}  // namespace burnish::test
