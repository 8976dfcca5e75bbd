#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace burnish::studio {

// The mask of a picture is a gray picture of its size beside it, "cat-masklabel.png" (OneTrainer's name) or "cat.mask.png": what is white
// of it counts in the loss, what is black does not. A run finds it by itself, and reads it with masked_loss "column"
// (data/captioned_folder.h).

/// Nothing where the picture has none.
std::optional<std::filesystem::path> mask_of(const std::filesystem::path& picture);
/// Writes a mask, given as the bytes of a picture file of the picture's shape, gray and in its size. A config Error for another shape, a
/// data Error where either cannot be read.
void write_mask(const std::filesystem::path& picture, std::string_view bytes);
/// Takes the mask away: all of the picture counts.
void remove_mask(const std::filesystem::path& picture);

}  // namespace burnish::studio
