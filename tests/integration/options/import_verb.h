#pragma once
#include <gmock/gmock.h>

#include "tests/integration/refused.h"

// Shared by the tests of `burnish import`.
namespace burnish::test {

inline std::string in_model(const std::string& part) { return (kGolden / "model" / part).string(); }
inline std::string pictures() { return (kGolden / "pictures").string(); }

class ImportVerb : public BadInput {
 protected:
  /// Imports a file of that name and text; what was said. The TOML file is at("run.toml").
  std::string import_file(const std::string& name, const std::string& text, const std::string& more = "") const {
    auto outcome = run_burnish("import " + quoted(write(name, text)) + " --output " + quoted(at("run.toml")) + " " + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  std::string toml() const { return read_file(at("run.toml")); }

  /// One step with the imported settings; what was said.
  std::string starts(const std::string& more = "", const std::string& tokenizers = BadInput::tokenizers()) const {
    auto outcome =
        run_burnish("train --config " + quoted(at("run.toml")) + " " + tokenizers + "--max_steps 1 --lr_warmup_steps 0 --device cpu " +
                    "--num_threads 1 --output_path " + quoted(out()) + " " + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output << toml();
    const bool is_named = toml().find("output_name = \"x\"") != std::string::npos;
    EXPECT_TRUE(fs::exists(out() / (is_named ? "x-step-1.safetensors" : "step-1.safetensors")));
    return outcome.output;
  }
};

}  // namespace burnish::test
