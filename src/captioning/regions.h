#pragma once
#include <string>
#include <vector>

namespace burnish::captioning {

/// A rectangle of a picture, by shares of its sides, from 0 to 1.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};
/// Something that lies somewhere in a picture.
struct Region {
  std::string label = {};  ///< what is there; of written words "text"
  std::string words = {};  ///< the words that are written there, if they are what lies there
  Box box = {};
};

/// The sides that numbers of boxes count in: 1000 by 1000, or those of the picture as it was seen.
struct BoxScale {
  double height = 1000, width = 1000;
};

/// Reads what Florence-2 answers about regions, "cat<loc_52><loc_333><loc_880><loc_940>": a label and its boxes, as left, top, right,
/// bottom in thousandths (transformers: Florence2PostProcessor). What is not whole, or no rectangle, is passed over. A data Error where
/// something was answered and nothing of it is a box.
std::vector<Region> regions_of_marks(const std::string& answer);
/// Reads words that Florence-2 reads in a picture, each with four corners, whose rectangle is taken. None where there are none.
std::vector<Region> words_of_marks(const std::string& answer);
/// Reads a JSON list of {"bbox_2d": [left, top, right, bottom], "label": "…"}, as Qwen2.5-VL and Qwen3-VL answer, within any other text. Of
/// a list that was cut the whole entries are read. An entry with "text_content" is of written words. Throws as regions_of_marks.
std::vector<Region> regions_of_json(const std::string& answer, const BoxScale& scale);

}  // namespace burnish::captioning
