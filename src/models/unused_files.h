#pragma once
#include "models/model/family.h"

namespace burnish::models {

/// Throws a data Error that names the first of a model's files, as the user named them, of which the open model reads nothing, and says
/// what it holds: a file that is passed over would leave something else training than the user means. A folder of a model of this family
/// may be there for its tokenizers and its scheduler alone, where all parts are files and folders that were named by themselves.
void refuse_unused(const Model& model, const std::vector<const Family*>& families);

}  // namespace burnish::models
