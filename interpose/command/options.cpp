#include "interpose/command/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "interpose/command/sizes.h"
#include "interpose/config.h"

namespace swapadvisor::command {

namespace {

class Help : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App* app, std::string) const override {
        const auto* options = dynamic_cast<const Options*>(app);
        return fmt::format("Usage: {} [options] {}\n", app->get_name(), options ? options->usage() : "");
    }
};

CLI::Option* add_number(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& help,
                        std::optional<std::int64_t> (*parse)(std::string_view), const char* kind) {
    return app
        .add_option_function<std::string>(
            name,
            [&value, parse, name, kind](const std::string& text) {
                const auto parsed = parse(text);
                if (!parsed) throw CLI::ValidationError(name, "\"" + text + "\" is not a " + kind);
                value = *parsed;
            },
            help)
        ->type_name(kind == std::string("size") ? "SIZE" : "RATE");
}

}  // namespace

Options::Options(const std::string& command, const std::string& description, const std::string& usage,
                 const std::string& examples)
    : CLI::App(description, command), usage_(usage) {
    formatter(std::make_shared<Help>());
    footer("examples:\n" + examples);
}

int Options::refuse(const std::string& what) const {
    fmt::print(stderr, "error: {} ({} --help)\n", what, get_name());
    return 2;
}

int Options::parse_words(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    try {
        parse(words);
    } catch (const CLI::CallForHelp&) {
        std::fputs(help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError& error) {
        std::string what = error.what();
        std::replace(what.begin(), what.end(), '\n', ' ');
        return refuse(what);
    }
    return -1;
}

int Options::run(int argc, char** argv, const std::function<int()>& body) {
    if (const int status = parse_words({argv + 1, argv + argc}); status >= 0) return status;
    try {
        return body();
    } catch (const std::exception& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return 1;
    }
}

CLI::Option* add_size(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& help) {
    return add_number(app, name, value, help, parse_size, "size");
}
CLI::Option* add_rate(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& help) {
    return add_number(app, name, value, help, parse_rate, "rate");
}

CLI::Option* add_memory(CLI::App& app, const std::string& name, MemoryOption& value,
                        const std::string& help) {
    return app
        .add_option_function<std::string>(
            name,
            [&value, name](const std::string& text) {
                std::uint64_t bytes = 0;
                if (const std::string problem = parse_memory(text, bytes, value.fraction); !problem.empty())
                    throw CLI::ValidationError(name, "\"" + text + "\": " + problem);
                value.bytes = static_cast<std::int64_t>(bytes);
            },
            help)
        ->type_name("SIZE");
}

std::int64_t MemoryOption::of(std::int64_t device_bytes) const {
    return fraction > 0 ? std::llround(fraction * static_cast<double>(device_bytes)) : bytes;
}

}  // namespace swapadvisor::command
