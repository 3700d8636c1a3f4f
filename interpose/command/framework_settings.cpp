#include "interpose/command/framework_settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace swapadvisor::command {

namespace fs = std::filesystem;

namespace {

struct Setting {
    const char* name;
    const char* value;
    const char* also = nullptr;  ///< another value that serves as well; "": any does
};

struct Framework {
    const char* package;
    std::vector<Setting> settings;
};

const Framework kFrameworks[] = {
    // In older versions it counts that it is there, whatever its value.
    {"torch", {{"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", ""}}},
    {"jax",
     {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", "platform"},
      {"XLA_PYTHON_CLIENT_PREALLOCATE", "false", "0"}}},
    {"tensorflow", {{"TF_GPU_ALLOCATOR", "cuda_malloc_async"}}},
    {"paddle", {{"FLAGS_use_cuda_malloc_async_allocator", "1", "true"}}},
    // DEV: its other backend for the same GPU talks to the kernel module directly, where nothing can be
    // hooked.
    {"tinygrad", {{"DEV", "CUDA", "CUDA:"}, {"LRU", "0"}, {"NO_MEMORY_PLANNER", "1"}}},
};

/// The interpreter line of a script, or "".
std::string shebang(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string line(256, '\0');
    file.read(line.data(), static_cast<std::streamsize>(line.size()));
    line.resize(static_cast<std::size_t>(file.gcount()));
    return line.starts_with("#!") ? line.substr(0, line.find('\n')) : "";
}

/// The Python interpreter that would run, or nothing if it is not a Python program.
std::optional<std::string> python_of(const std::string& path) {
    const std::string name = fs::path(path).filename();
    if (name.starts_with("python") || name.starts_with("pypy")) return path;
    std::string line = shebang(path);
    if (line.find("python") == std::string::npos) return std::nullopt;
    std::istringstream words(line.substr(2));
    std::string word, interpreter;
    while (words >> word) {
        if (word.find("python") != std::string::npos) interpreter = word;
    }
    return interpreter.find('/') == std::string::npos ? find_program(interpreter) : interpreter;
}

/// sys.path as the interpreter itself tells it: for wrappers that choose an interpreter (pyenv and the like).
std::vector<fs::path> asked_folders(const std::string& python) {
    std::vector<fs::path> folders;
    if (python.find('\'') != std::string::npos) return folders;
    const std::string command =
        "'" + python + "' -c 'import sys; print(chr(10).join(sys.path))' 2>/dev/null </dev/null";
    std::FILE* answer = popen(command.c_str(), "r");
    if (!answer) return folders;
    char line[4096];
    while (std::fgets(line, sizeof line, answer)) {
        const std::string folder(line, std::strcspn(line, "\n"));
        if (!folder.empty()) folders.emplace_back(folder);
    }
    pclose(answer);
    return folders;
}

/// Folders that may hold packages.
std::vector<fs::path> package_folders(const std::string& python) {
    std::vector<fs::path> folders;
    std::error_code error;
    const auto add_prefix = [&](const fs::path& prefix) {
        for (const char* lib : {"lib", "lib64", "local/lib"}) {
            for (fs::directory_iterator it(prefix / lib, error), end; !error && it != end;
                 it.increment(error)) {
                if (!it->path().filename().string().starts_with("python3")) continue;
                for (const char* kind : {"site-packages", "dist-packages"}) {
                    if (fs::is_directory(it->path() / kind, error)) folders.push_back(it->path() / kind);
                }
            }
            error.clear();
        }
    };
    if (!shebang(python).empty()) {
        folders = asked_folders(python);
    } else {
        // A virtual environment's interpreter is a link: its own prefix first, then what it points to.
        add_prefix(fs::path(python).parent_path().parent_path());
        const fs::path real = fs::canonical(python, error);
        if (!error) add_prefix(real.parent_path().parent_path());
        if (fs::path(python).parent_path() == "/usr/bin") add_prefix("/usr/local");
    }
    if (const char* home = std::getenv("HOME")) add_prefix(fs::path(home) / ".local");
    if (const char* text = std::getenv("PYTHONPATH")) {
        std::istringstream parts(text);
        for (std::string part; std::getline(parts, part, ':');)
            folders.emplace_back(part.empty() ? "." : part);
    }
    folders.emplace_back(".");
    return folders;
}

bool mentions(const std::vector<std::string>& program, const std::string& word) {
    for (std::size_t i = 1; i < program.size(); ++i) {
        if (program[i].find(word) != std::string::npos) return true;
        if (!program[i].ends_with(".py")) continue;
        std::ifstream file(program[i], std::ios::binary);
        std::string text(1 << 16, '\0');
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
        if (text.find(word) != std::string::npos) return true;
    }
    return false;
}

/// A value of the user's own that does what is wanted. tinygrad's DEV=CUDA:PTX counts: the same device.
bool serves(const Setting& setting, const char* value) {
    if (std::strcmp(value, setting.value) == 0) return true;
    return setting.also && std::strncmp(value, setting.also, std::strlen(setting.also)) == 0;
}

bool set_to(const char* name, const char* part) {
    const char* value = std::getenv(name);
    return value && std::strstr(value, part);
}

}  // namespace

std::string find_program(const std::string& name) {
    if (name.empty()) return "";
    if (name.find('/') != std::string::npos) return name;
    const char* path = std::getenv("PATH");
    std::istringstream parts(path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string part; std::getline(parts, part, ':');) {
        const std::string candidate = (part.empty() ? "." : part) + "/" + name;
        std::error_code error;
        if (access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate, error)) return candidate;
    }
    return "";
}

FrameworkAdvice framework_advice(const std::vector<std::string>& program) {
    FrameworkAdvice advice;
    const auto python = python_of(find_program(program.front()));
    if (!python) return advice;
    bool async_backend = false;
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
        async_backend |= set_to(name, "backend:cudaMallocAsync");
        if (set_to(name, "expandable_segments:True")) {
            advice.refusal =
                std::string(name) + "=" + std::getenv(name) +
                ": expandable segments hide every tensor in one range; unset expandable_segments";
        }
    }
    const std::vector<fs::path> folders = package_folders(*python);
    for (const Framework& framework : kFrameworks) {
        const std::string package = framework.package;
        std::error_code error;
        const bool found =
            folders.empty() || std::any_of(folders.begin(), folders.end(), [&](const fs::path& folder) {
                return fs::exists(folder / package / "__init__.py", error);
            });
        if (!found && !mentions(program, package)) continue;
        if (package == "torch" && async_backend)
            continue;  // its tensors are allocations of the driver's already
        if (!advice.wanted.empty()) advice.wanted += ", ";
        for (const Setting& setting : framework.settings) {
            advice.wanted += std::string(setting.name) + "=" + setting.value + " ";
            const char* own = std::getenv(setting.name);
            if (!own) {
                advice.set.push_back({package, setting.name, setting.value});
            } else if (!serves(setting, own)) {
                advice.contrary.push_back({package, setting.name, setting.value});
            }
        }
        advice.wanted += "(" + package + ")";
    }
    return advice;
}

}  // namespace swapadvisor::command
