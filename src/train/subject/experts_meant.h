#pragma once
#include "models/model/model.h"

namespace burnish::train {

/// Returns what a component's or part's name means in a model of several experts, for these of them: the name of the first, or of what is
/// beside it ("dit", "dit.blocks.0", "vace"), stands for each one's own ("dit_2"). All other names mean themselves.
std::vector<std::string> meant_by(const std::string& name, const models::Model& model, const std::vector<models::Expert>& experts);

/// Returns a list of numbers by name (base/numbers_by_name.h) with what its names mean.
std::string numbers_meant_by(const std::string& numbers, const models::Model& model, const std::vector<models::Expert>& experts);

}  // namespace burnish::train
