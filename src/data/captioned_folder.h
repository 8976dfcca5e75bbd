#pragma once
#include "data/metadata.h"

namespace burnish::data {

/// The pictures of a folder or a tar archive (WebDataset's, say), in the order of their names, each with the caption in the text file of
/// its name (`cat.png`, `cat.txt`), as rows with the columns image (a whole path) and prompt: a text, or a list of {text, weight} where a
/// picture has files of several endings. Blanks around a caption are left out; an empty file is an empty caption.
///
/// Where no text file is there, the caption is the prompt, caption or text of the JSON object in `cat.json`.
///
/// Subfolders and archives in it count as well. In one whose name begins with a number, as in sd-scripts' `train_data_dir` (`10_cat`),
/// every picture gives that many rows. A data Error when there is no picture, or pictures lack their caption file and there are no class
/// tokens.
Metadata load_captioned_folder(const std::filesystem::path& folder, const CaptionFiles& captions = {});

}  // namespace burnish::data
