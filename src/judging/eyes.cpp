#include "judging/eyes.h"

#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include "base/input_error.h"
#include "judging/dino.h"
#include "judging/dino3.h"
#include "judging/siglip.h"

namespace burnish::judging {

template <class Kind>
void Eyes::add(const char* asker, const models::ModelFiles& files, const models::ModelOptions& options) {
  if (!Kind::is_in(files)) return;
  auto eye = std::make_unique<Kind>(files, options);
  if (of_pictures_)
    config_error(asker, "{} and {} both compare pictures with pictures; name one of the two", of_pictures_->name(), eye->name());
  of_pictures_ = std::move(eye);
}

Eyes::Eyes(const char* asker, const models::ModelFiles& files, const models::ModelOptions& options) {
  add<Dino>(asker, files, options);
  add<Dino3>(asker, files, options);
  add<Siglip>(asker, files, options);
  if (!of_pictures_ || Likeness::is_in(files)) clip_.emplace(files, options);
}

std::vector<Eye*> Eyes::all() {
  std::vector<Eye*> all;
  if (of_pictures_) all.push_back(of_pictures_.get());
  if (clip_) all.push_back(&*clip_);
  return all;
}

std::string Eyes::names() const {
  if (!of_pictures_) return clip_->name();
  return clip_ ? fmt::format("{} and {}", of_pictures_->name(), clip_->name()) : of_pictures_->name();
}

at::Tensor seen_by(Eye& eye, const std::vector<at::Tensor>& pictures_HW3) {
  std::vector<at::Tensor> shown;
  for (const auto& picture : pictures_HW3) shown.push_back(eye.shown(picture));
  return eye.of_pictures(at::stack(shown));
}

}  // namespace burnish::judging
