#pragma once
#include <string>
#include <vector>

#include "models/model/components.h"
#include "tagging/network.h"
#include "tagging/tags.h"

namespace burnish::tagging {

/// A tagger of which it is known where it is published.
struct PublishedTagger {
  const char *name, *id;
};
/// Returns the WD taggers of the third version.
const std::vector<PublishedTagger>& published_taggers();
/// Returns the id on a hub of a tagger that is named without its author; the name itself where it is none, or something of that name is
/// there.
std::string id_of(const std::string& name);

/// Tells whether the files hold a network of an architecture that taggers have, with a table of tags beside it, or a name of one.
bool is_tagger(const models::ModelFiles& files);

/// A model that says which tags are true of pictures: a WD tagger in timm's names, with config.json and selected_tags.csv beside it.
class Tagger {
 public:
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none, or its table does not fit.
  Tagger(const models::ModelFiles& files, const models::ModelOptions& options);

  /// Returns its one part, which is to be loaded before anything is seen.
  models::Components& components() { return components_; }
  const std::string& name() const { return name_; }
  const std::vector<TagName>& tags() const { return tags_; }
  /// Returns how likely a general tag usually has to be to be written for this architecture.
  double usual_threshold() const { return usual_threshold_; }
  /// Returns the side of the square that pictures are scaled to.
  int64_t side() const { return plan_.side; }

  /// Makes what the network takes of a picture, uint8 [H, W, 3]: in the middle of a white square, scaled by Pillow's bicubic filter,
  /// normalised, [3, S, S].
  at::Tensor shown(const at::Tensor& picture_HW3) const;
  /// Says how likely each tag is of pictures that `shown` made, [B, T] in fp32.
  at::Tensor likelihoods(const at::Tensor& image_B3SS);

 private:
  void read_normalisation(const nlohmann::json& config);

  const models::ModelOptions& options_;
  models::Components components_;
  std::string name_;
  double usual_threshold_ = 0;
  Plan plan_;
  std::vector<TagName> tags_;
  std::vector<double> mean_{0.5, 0.5, 0.5}, deviation_{0.5, 0.5, 0.5};
};

}  // namespace burnish::tagging
