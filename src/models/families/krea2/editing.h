#pragma once
#include "models/model/model.h"
#include "models/parts/picture_texts.h"

// The edit forms of Krea 2, which its community made: what text encoder, autoencoder and transformer see of reference pictures.
namespace burnish::models::krea2 {

/// The column in which reference pictures are found.
inline constexpr const char* kReferenceColumn = "edit_image";

/// The forms, which do not mix: what is trained in one is drawn in it.
enum class Form {
  frames,   ///< every picture is a frame of its own behind the target, without noise: ai-toolkit, ComfyUI-Krea2-Ostris-Edit
  overlaid  ///< one picture, of the target's size and in its place: SimpleTuner
};
/// Reads the option reference_form; `forms` lists its words.
Form form_of(const std::string& word);
std::vector<std::string> forms();

/// The largest area of a picture that the autoencoder sees, and that the vision tower sees, in the form `frames`.
inline constexpr int64_t kReferenceArea = 1024 * 1024, kSeenArea = 384 * 384;

/// Returns the sides of a picture for the autoencoder: of at most this area, multiples of 16.
Extent fitted(const Extent& picture, int64_t area);
/// Scales a picture [3, H, W] in [-1, 1] to these sides.
at::Tensor fitted(const at::Tensor& image_3HW, int64_t area);
/// Returns the picture as the vision tower is given it, before it is shown by its own rule: whole numbers from 0 to 255 in fp64.
at::Tensor levels_to_see(const at::Tensor& image_3HW, Form form);

/// Makes what stands for so many pictures in a text.
std::string told_pictures(Form form, size_t count);

}  // namespace burnish::models::krea2
