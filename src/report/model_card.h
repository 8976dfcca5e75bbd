#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace burnish::report {

/// What the card of an adapter, or of words, says, and what lies beside it. Texts may be empty, and are then left out.
struct ModelCard {
  std::string title;
  std::string base_title, base_id;  ///< the model that it was trained over, and its id on Hugging Face
  std::string kind = "lora";        ///< kind of adapter, or "textual_inversion"
  std::string pipeline_tag;         ///< "text-to-image", "image-to-image", "text-to-video", "image-to-video"
  std::string trigger, license, description;
  std::string license_link, license_notice;  ///< of a licence that hubs do not know by its name: where it is, and what it asks for
  std::vector<std::string> tags = {};        ///< beside those that say what it is
  std::vector<std::filesystem::path> weights = {};
  std::vector<std::pair<std::string, std::filesystem::path>> words = {};  ///< files with vectors of words (textual inversion), by the words
  bool for_diffusers = false;      ///< whether diffusers reads the weights; one file then has the name that it looks for
  std::filesystem::path run = {};  ///< the run whose last previews are its samples
  std::vector<std::pair<std::string, std::string>> facts = {};  ///< rows of the table about training
};

/// Writes a folder as hubs show it: README.md with the front matter that Hugging Face reads, the weights, and samples/ with at most
/// `most_samples` previews. It appears when it is whole. A config Error for a folder that is there already, unless it is a card and
/// `overwrite` says to replace it; a data Error for what cannot be read or written.
void write_model_card(const std::filesystem::path& folder, const ModelCard& card, size_t most_samples, bool overwrite);

}  // namespace burnish::report
