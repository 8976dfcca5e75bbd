#include "models/families/wan/side_module.h"

#include <ATen/ops/zeros.h>

#include "models/model/negative_prompt.h"

namespace burnish::models::wan {

pipeline::Unit mark_prompt_unit() {
  return {"mark_prompt", {"prompt"}, {kIsNegative}, {}, [](pipeline::Scope& s) {
            s.text("prompt");
            s.write(kIsNegative, at::zeros({1, 1}));
          }};
}

}  // namespace burnish::models::wan
