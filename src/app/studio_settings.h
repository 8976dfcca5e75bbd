#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace burnish::app {

/// studio::Options::form.
nlohmann::json form_of(const std::string& settings, bool trusts_settings);

/// studio::Options::problems: of train, sample, caption, mask and convert.
nlohmann::json problems_of(const std::string& verb, const std::string& settings, const std::filesystem::path& workspace,
                           bool trusts_settings);

}  // namespace burnish::app
