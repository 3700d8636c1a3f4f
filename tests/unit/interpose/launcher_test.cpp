// What the launcher decides before it starts anything.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "interpose/command/framework_settings.h"
#include "interpose/command/preload.h"

using namespace swapadvisor::command;
namespace fs = std::filesystem;

namespace {

/// A folder that goes with the test.
struct Scratch {
    fs::path path = fs::temp_directory_path() / ("swapadvisor-launcher-test-" + std::to_string(getpid()));
    Scratch() { fs::create_directories(path); }
    ~Scratch() { fs::remove_all(path); }
    fs::path file(const std::string& name, const std::string& text) const {
        fs::create_directories((path / name).parent_path());
        std::ofstream(path / name) << text;
        fs::permissions(path / name, fs::perms::owner_all);
        return path / name;
    }
};

std::string names(const std::vector<FrameworkSetting>& settings) {
    std::string all;
    for (const FrameworkSetting& setting : settings) all += setting.name + "=" + setting.value + " ";
    return all;
}

}  // namespace

TEST_CASE("preload list: in front, once, what was there kept") {
    CHECK(preload_list("/x/ours.so", nullptr) == "/x/ours.so");
    CHECK(preload_list("/x/ours.so", "") == "/x/ours.so");
    CHECK(preload_list("/x/ours.so", "/a.so:/b.so") == "/x/ours.so:/a.so:/b.so");
    CHECK(preload_list("/x/ours.so", "/a.so /x/ours.so") == "/a.so /x/ours.so");
    CHECK(preload_list("/x/ours.so", "/x/ours.so.old") == "/x/ours.so:/x/ours.so.old");
}

TEST_CASE("obstacles to preloading") {
    Scratch scratch;
    CHECK(preload_obstacle("/proc/self/exe").empty());
    CHECK(preload_obstacle(scratch.file("script", "#!/bin/sh\n")).empty());
    // A header that claims another machine.
    std::string other(64, '\0');
    std::ifstream("/proc/self/exe", std::ios::binary).read(other.data(), 64);
    other[18] = '\xb7';
    CHECK(preload_obstacle(scratch.file("other", other)).find("64-bit x86") != std::string::npos);
}

TEST_CASE("a program that wants the driver is known by its file") {
    Scratch scratch;
    std::string elf(64, '\0');
    std::ifstream("/proc/self/exe", std::ios::binary).read(elf.data(), 64);
    CHECK(names_driver(scratch.file("linked", elf + "libcuda.so.1")));
    CHECK(names_driver(scratch.file("runtime", elf + "libcudart.so.13")));
    CHECK_FALSE(names_driver(scratch.file("other", elf + "libc.so.6")));
    CHECK_FALSE(names_driver(scratch.file("script", "#!/bin/sh\nls libcuda.so.1\n")));
    CHECK_FALSE(names_driver(scratch.path / "absent"));
}

TEST_CASE("framework settings by what is installed beside the interpreter") {
    for (const char* name : {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_ALLOC_CONF",
                             "PYTORCH_CUDA_ALLOC_CONF", "DEV", "LRU", "NO_MEMORY_PLANNER",
                             "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "PYTHONPATH"}) {
        unsetenv(name);
    }
    Scratch scratch;
    setenv("HOME", scratch.path.c_str(), 1);
    const std::string python = scratch.file("env/bin/python3",
                                            "\x7f"
                                            "ELF");
    scratch.file("env/lib/python3.11/site-packages/torch/__init__.py", "");

    CHECK(names(framework_advice({python, "train.py"}).set) == "PYTORCH_NO_CUDA_MEMORY_CACHING=1 ");
    CHECK(framework_advice({"/bin/sh", "-c", "python3"}).set.empty());

    const std::string script = scratch.file("tiny.py", "from tinygrad import Tensor\n");
    CHECK(names(framework_advice({python, script}).set) ==
          "PYTORCH_NO_CUDA_MEMORY_CACHING=1 DEV=CUDA LRU=0 "
          "NO_MEMORY_PLANNER=1 ");
    CHECK(framework_advice({python, script}).wanted ==
          "PYTORCH_NO_CUDA_MEMORY_CACHING=1 (torch), DEV=CUDA LRU=0 NO_MEMORY_PLANNER=1 (tinygrad)");

    const std::string tool = scratch.file("env/bin/torchrun", "#!" + python + "\nimport sys\n");
    CHECK(names(framework_advice({tool}).set) == "PYTORCH_NO_CUDA_MEMORY_CACHING=1 ");

    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", 1);
    CHECK(framework_advice({python, "train.py"}).set.empty());
    CHECK(framework_advice({python, "train.py"}).contrary.empty());  // it counts that it is set
    unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");

    // What the user has set stays. It is contrary to what is needed unless it does the same.
    CHECK(framework_advice({python, script}).contrary.empty());
    for (const auto& [device, contrary] : {std::pair{"NV", "DEV=CUDA "}, std::pair{"CUDA", ""},
                                           std::pair{"CUDA:PTX", ""}, std::pair{"CPU", "DEV=CUDA "}}) {
        setenv("DEV", device, 1);
        CHECK(names(framework_advice({python, script}).contrary) == contrary);
    }
    setenv("LRU", "1", 1);
    CHECK(names(framework_advice({python, script}).contrary) == "DEV=CUDA LRU=0 ");
    CHECK(names(framework_advice({python, script}).set) ==
          "PYTORCH_NO_CUDA_MEMORY_CACHING=1 NO_MEMORY_PLANNER=1 ");
    unsetenv("DEV");
    unsetenv("LRU");

    setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", 1);
    CHECK(framework_advice({python, "train.py"}).set.empty());
    setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 1);
    CHECK(framework_advice({python, "train.py"}).refusal.find("expandable") != std::string::npos);
    CHECK(framework_advice({"/bin/true"}).refusal.empty());
    unsetenv("PYTORCH_ALLOC_CONF");
}
