#pragma once
#include <filesystem>
#include <string>

#include "data/metadata.h"

namespace burnish::data {

/// The files that a dataset takes, told by their names: all, what is a picture (an animation too), or what is a clip and never a picture.
enum class Media { all, pictures, clips };

/// Which text files beside the pictures of a folder hold their captions, and what those have that are without; and where masks are.
struct CaptionFiles {
  std::string endings = ".txt";   ///< comma list of ENDING or ENDING=WEIGHT: how often that caption is drawn beside those of other endings
  std::string class_tokens = {};  ///< the caption of samples that have none; "" where each must have one
  std::string trigger_word = {};  ///< the caption of those for which nothing else says one
  bool with_videos = false;       ///< whether videos count as pictures do
  std::string mask_folder = {};   ///< has masks under the names of pictures; "": they lie beside them
  Media media = Media::all;       ///< which of the files are samples
  bool with_layers = false;       ///< whether cat_1.png, cat_2.png and so on, without captions, are the layers of cat.png
};

/// The pictures of a folder or a tar archive (WebDataset's, say), in the order of their names, each with the caption in the text file of
/// its name (`cat.png`, `cat.txt`), as rows with the columns image (a whole path) and prompt: a text, or a list of {text, weight} where a
/// picture has files of several endings. Blanks around a caption are left out; an empty file is an empty caption.
///
/// The fields of the JSON object in `cat.json` are further columns, and where no text file is there its prompt, caption or text is the
/// caption. `cat.mask.png` is no picture but the column mask. Where there may be layers, those of `cat.png` follow it in a list, which is
/// what the column image then holds.
///
/// Rows of Parquet files in it come after, as they are (parquet.h). Where such files are named by the parts of a dataset as on the hub
/// (`train-00000-of-00003.parquet`), those for tests and validation (`test-`, `validation-`) are left out.
///
/// Subfolders and archives in it count as well; hidden files and what links to folders lead to do not. In a folder whose name begins with a
/// number, as in sd-scripts' `train_data_dir` (`10_cat`), every picture gives that many rows. Pictures without caption, or with one that
/// cannot be read, are bad rows (without class tokens and trigger word), and so are damaged archives. A data Error when there is no
/// picture.
Metadata load_captioned_folder(const std::filesystem::path& folder, const CaptionFiles& captions = {});

}  // namespace burnish::data
