#pragma once
#include <gmock/gmock.h>
#include <httplib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "studio/server.h"
#include "tests/scratch.h"

namespace burnish::test {

namespace fs = std::filesystem;

inline std::string text_of(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline bool comes_true(const std::function<bool()>& is_true, std::chrono::milliseconds within = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// A workspace, and in place of burnish a script: of `train` the settings are shell commands, which find the run's folder in $RUN and what
/// else was said in $MORE; `plan` says what kPlan holds, and what stood by for it keeps in `told` what it was told; `import` takes every
/// file that holds "=" for settings; `models` brings a model in no time, or, of "slow/...", not before it is stopped; of `data` they are
/// shell commands as well, which find the dataset in $1, or else are kept as `data.toml`, and two samples are said; `caption` and `mask`
/// keep their settings beside the script, and go on while a file `hold` is there; `card` keeps them too, and writes one; so does `best`,
/// which then says {"saves", "take": 30}; `doctor` says
/// {"advice": ["a note"]}.
class Workplace : public testing::Test {
 protected:
  Workplace() {
    std::ofstream(program())
        << "#!/bin/sh\nif [ \"$1\" = --standby ]; then read -r LINE || exit 0; echo \"$LINE\" >> \"$(dirname \"$0\")/told\"; set -- plan; "
           "fi\n"
           "if [ \"$1\" = plan ]; then echo \"$CUDA_VISIBLE_DEVICES\" > \"$(dirname \"$0\")/plan.gpu\"; echo '"
        << kPlan
        << "'; exit 0; fi\n"
           "case $1 in caption|mask) D=$(dirname \"$0\"); cp \"$3\" \"$D/$1.toml\"; echo \"$1 1/2\" >&2; trap 'exit 130' INT\n"
           "  while [ -e \"$D/hold\" ]; do sleep 0.05; done; exit 0;; esac\n"
           "if [ \"$1\" = card ]; then D=$(dirname \"$0\"); cp \"$3\" \"$D/card.toml\"; R=$(sed -n 's/^run = ..\\(.*\\)..$/\\1/p' \"$3\")\n"
           "  mkdir -p \"$R/card\"; echo '# A card' > \"$R/card/README.md\"; echo https://hub/me/cat; exit 0; fi\n"
           "if [ \"$1\" = best ]; then D=$(dirname \"$0\"); cp \"$3\" \"$D/best.toml\"; echo 'looking 1/2' >&2; trap 'exit 130' INT\n"
           "  while [ -e \"$D/hold\" ]; do sleep 0.05; done; printf '{\\n  \"saves\": [],\\n  \"take\": 30\\n}\\n'; exit 0; fi\n"
           "if [ \"$1 $2\" = 'data --config' ]; then cp \"$3\" \"$(dirname \"$0\")/data.toml\"\n"
           "  printf '{\\n  \"samples\": [{\"file\": \"a.png\", \"says_little\": true, \"pulls_elsewhere\": false},'\n"
           "  printf '{\"file\": \"b.png\", \"says_little\": false, \"pulls_elsewhere\": true}]\\n}\\n'; exit 0; fi\n"
           "if [ \"$1\" = data ]; then exec sh \"$5\" \"$2\"; fi\n"
           "if [ \"$1\" = doctor ]; then echo '{\"advice\": [\"a note\"]}'; exit 0; fi\n"
           "if [ \"$1\" = import ]; then\n"
           "  if grep -q = \"$2\"; then echo '{\"settings\": \"rank = 4\", \"program\": \"kohya\"}'; exit 0; fi\n"
           "  echo '[import] no settings' >&2; exit 2\nfi\n"
           "if [ \"$1\" = models ]; then\n"
           "  echo 'fetch (MiB): 1 of 2' >&2; if grep -q slow/ \"$3\"; then trap 'exit 130' INT; while :; do sleep "
           "0.05; done; fi; exit 0\nfi\n"
           "S=$2; RUN=$4; export RUN; mkdir -p \"$RUN\"; shift 4; MORE=$*; export MORE\n"
           "exec sh \"$S\"\n";
    ::chmod(program().c_str(), 0755);
  }

  static constexpr const char* kPlan = R"({"bytes": 1, "device": "cpu", "length": {"steps": 7, "multiplications_a_step": 100}})";

  fs::path program() const { return scratch / "program"; }
  fs::path root() const { return scratch / "work place"; }
  fs::path run(const std::string& name) const { return root() / "runs" / name; }

  Scratch scratch;
};

}  // namespace burnish::test
