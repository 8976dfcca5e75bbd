#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judging/likeness.h"

namespace burnish::judging {

/// The models that look at pictures: a DINO or SigLIP at how alike they are, a CLIP at how they answer prompts, and at both where it is
/// alone.
class Eyes {
 public:
  /// Finds them by file headers; both must outlive this. A config Error of `asker` for two that compare pictures with pictures, a data
  /// Error where there is none.
  Eyes(const char* asker, const models::ModelFiles& files, const models::ModelOptions& options);

  /// Returns all of them, which are to be loaded before anything is seen.
  std::vector<Eye*> all();
  /// Returns the one that sees how alike pictures are.
  Eye& of_likeness() { return of_pictures_ ? *of_pictures_ : static_cast<Eye&>(*clip_); }
  /// Returns the one that sees how pictures answer prompts; null where none does.
  Likeness* of_prompts() { return clip_ ? &*clip_ : nullptr; }
  /// Tells whether likeness and answers are seen by one.
  bool are_one() const { return !of_pictures_; }
  std::string names() const;

 private:
  template <class Kind>
  void add(const char* asker, const models::ModelFiles& files, const models::ModelOptions& options);

  std::optional<Likeness> clip_;
  std::unique_ptr<Eye> of_pictures_;  ///< null where CLIP is alone
};

/// Looks at decoded pictures, uint8 [H, W, 3], all at once: their unit vectors [N, D].
at::Tensor seen_by(Eye& eye, const std::vector<at::Tensor>& pictures_HW3);

}  // namespace burnish::judging
