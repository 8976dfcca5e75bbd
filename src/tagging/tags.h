#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace burnish::tagging {

/// The kind of a tag, by the numbers of Danbooru's categories.
enum class Category { general = 0, character = 4, rating = 9 };
const char* name_of(Category category);

/// A tag that a network knows.
struct TagName {
  std::string name;  ///< as its table has it: "looking_at_viewer"
  Category category = Category::general;
};
/// Reads selected_tags.csv: a row for each of a network's outputs, in their order, with the columns name and category. A data Error where
/// it is something else, or has a category that is not known.
std::vector<TagName> read_tag_names(const std::filesystem::path& file);

/// Says which tags of a picture are written, and how.
struct TagRule {
  double general = 0;                     ///< how likely a general tag has to be; 0: what is usual for the network
  double character = 0.85;                ///< how likely the tag of a character has to be
  bool with_rating = false;               ///< whether the likeliest rating is written, behind all other tags
  bool is_alphabetical = false;           ///< else characters first, then what is general, the likeliest first
  bool keeps_underscores = false;         ///< else they become blanks, but in faces such as ^_^
  std::vector<std::string> without = {};  ///< tags that are never written, with blanks or underscores
  std::string trigger = {}, prefix = {};  ///< what stands before all tags: the one, then the other
  bool is_added = false;                  ///< whether tags go behind the caption that is there
};

/// A tag that is true of a picture.
struct Tag {
  std::string name;  ///< as it is written
  Category category = Category::general;
  double likelihood = 0;
};
/// Picks the tags of a picture by how likely each is, [T], in the order in which they are written.
std::vector<Tag> tags_of(const at::Tensor& likelihoods_T, const std::vector<TagName>& names, const TagRule& rule);

/// Makes the caption, each tag once. `before` is the caption that is there, "" for none.
std::string caption_of(const std::vector<Tag>& tags, const TagRule& rule, const std::string& before);

/// Tells whether a name is a face, which is written as it is: it has no two letters or digits side by side.
bool is_face(const std::string& name);

}  // namespace burnish::tagging
