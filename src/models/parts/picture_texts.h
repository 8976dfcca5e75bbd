#pragma once
#include "base/extent.h"
#include "models/files/files.h"
#include "models/model/options.h"
#include "models/parts/shared_units.h"
#include "models/text/patches.h"
#include "models/text/qwen.h"
#include "tokenizers/qwen.h"

// Texts in which pictures stand, for text encoders of Qwen that also see.
namespace burnish::models {

/// What stands for a picture in a text, before it is known how many tokens it has.
inline constexpr const char* kPictureInText = "<|vision_start|><|image_pad|><|vision_end|>";

/// The tokens that a text encoder reads of a prompt and its pictures.
struct PictureText {
  std::vector<int64_t> ids = {};
  std::vector<text::SeenPicture> pictures = {};
  int64_t num_dropped = 0;  ///< number of the first tokens, whose states are dropped
};

/// What stands for frames of a clip, which are seen as one.
inline constexpr const char* kFramesInText = "<|vision_start|><|video_pad|><|vision_end|>";

/// Makes the conversation `chat` around a prompt. `told`, whose parts are cut into tokens each by itself, and in which kPictureInText
/// stands once for each picture, or the token of a frame of a clip, comes before the prompt; `seen` is what the vision tower made of them
/// (text::seen_at). The prompt is cut so that it has, with what stands behind it, `limit` tokens. `stand_for_pictures` are the tokens that
/// do; those that the vocabulary lacks stand for none, but the first has to be there.
PictureText picture_text(const tokenizers::ChatTokenizer& tokenizer, const tokenizers::ChatTemplate& chat,
                         const std::vector<std::string>& told, std::string_view prompt, const std::vector<at::Tensor>& seen, int64_t limit,
                         const std::vector<std::string>& stand_for_pictures = {"<|image_pad|>", "<|video_pad|>"});
/// Makes the longest conversation, in place of a prompt that is not known.
PictureText longest_picture_text(const std::vector<at::Tensor>& seen, int64_t limit);
/// Returns the token that stands for a picture; a data Error where the vocabulary has none.
int64_t picture_token(const tokenizers::ChatTokenizer& tokenizer);
/// Loads a tokenizer that has such a token.
std::unique_ptr<tokenizers::ChatTokenizer> load_seeing_qwen(const std::filesystem::path& folder, const tokenizers::ChatTemplate& chat);

/// Returns the sides of a picture scaled to an area, multiples of 32 (diffusers: calculate_dimensions of pipeline_qwenimage_edit.py).
Extent scaled_to(const Extent& picture, int64_t area);
/// Returns them as multiples of 16 that are no smaller (diffusers: calculate_dimensions of pipeline_longcat_image_edit.py).
Extent scaled_up_to(const Extent& picture, int64_t area);
/// Returns the sides of a picture that is made no larger than an area, and neither side longer than twice that of a square of it, cut down
/// to multiples of 16; it is made no smaller than it has to be.
Extent shrunk_to(const Extent& picture, int64_t area);
using ScaleTo = Extent (*)(const Extent& picture, int64_t area);
/// Scales a picture [3, H, W] in [-1, 1] to an area, as whole numbers from 0 to 255 in fp64.
at::Tensor levels_at(const at::Tensor& image_3HW, int64_t area, ScaleTo to = scaled_to);

/// Makes what a vision tower makes of a picture [3, H, W], one of so many of its sample.
using SeePicture = std::function<at::Tensor(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures)>;
/// Makes the unit in which a vision tower sees every reference picture.
pipeline::Unit seeing_unit(Components& components, const std::string& tower, const SeePicture& see);

/// Makes the entry of the files that hold the vision tower of a published Qwen2.5-VL, whose text encoder is beside it.
ModelEntry vision_sizes(std::string_view name);

/// Reads the rule from the processor's folder: the chosen one, or that beside the model; `published` where there is none.
text::PixelRule find_pixel_rule(const ModelFiles& files, const std::string& chosen, const text::PixelRule& published);

/// Returns the area of reference pictures: what reference_pixels says, or else the usual one.
int64_t reference_area(const ModelOptions& options, int64_t usual);
/// Makes the unit of reference pictures that are scaled to an area, which says so in the keys of caches (reference_picture_units).
pipeline::Units scaled_reference_units(const std::string& vae, const Encode& encode, int64_t area, c10::Device device,
                                       ScaleTo to = scaled_to);

/// Returns the options reference_pixels and processor_path, of families that scale reference pictures and show them to a vision tower.
Option reference_pixels_option();
Option processor_option();

}  // namespace burnish::models
