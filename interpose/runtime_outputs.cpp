#include "interpose/runtime_outputs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "interpose/config.h"
#include "recorder/output_path.h"

namespace swapadvisor {

namespace {

/// True for the first process of the run that asks for `name` (and for what it becomes by exec).
bool claim_in_folder(const std::string& folder, const std::string& name) {
    const std::string path = folder + "/claim-" + name;
    const pid_t own = getpid();
    if (const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); file >= 0) {
        const bool written = write(file, &own, sizeof own) == sizeof own;
        close(file);
        return written;
    }
    pid_t owner = 0;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool read_it = read(file, &owner, sizeof owner) == sizeof owner;
    close(file);
    return read_it && owner == own;
}

/// Without a launcher: true unless another process holds the lock on the file. Held until the process ends.
bool claim_by_lock(const std::string& path) {
    struct stat info {};
    if (path.empty() || path == "-") return true;
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return true;  // /dev/stdout and the like
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return true;  // whoever writes there will say why it cannot
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return true;
    close(file);
    return false;
}

struct RunSide {
    Outputs outputs;
    RunPage own{};
    RunPage* page = &own;
    bool launched = false;

    RunSide() {
        const char* folder = std::getenv("SWAPADVISOR_RUN");
        if (folder && *folder) open_page(std::string(folder) + "/" + std::to_string(getpid()));
        choose_names(launched ? folder : "");
        begin_page();
    }

    void open_page(const std::string& path) {
        const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0) return;
        void* memory = MAP_FAILED;
        if (ftruncate(file, sizeof(RunPage)) == 0)
            memory = mmap(nullptr, sizeof(RunPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory == MAP_FAILED) return;
        page = static_cast<RunPage*>(memory);
        launched = true;
    }

    void choose_names(const std::string& folder) {
        const auto expanded = [](const std::string& given, const char* ending) {
            return given == "-" ? given : expand_output_path(given, ending);
        };
        const std::string &report = config().report_path, &trace = config().trace_path;
        outputs = {expanded(report, ".txt"), expanded(trace, ".trace")};
        const std::int64_t rank = process_rank();
        std::string tag;
        if (rank >= 0 && process_ranks() != 1) tag = "rank" + std::to_string(rank);
        const bool first = !folder.empty() ? claim_in_folder(folder, tag.empty() ? "first" : tag)
                                           : claim_by_lock(tagged_path(outputs.report, tag));
        if (!first) tag += (tag.empty() ? "" : "-") + std::to_string(getpid());
        const auto add_tag = [&](std::string& path, const std::string& given) {
            struct stat info {};
            const bool own_name = given.find("%p") != std::string::npos || given == "-" ||
                                  (stat(given.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
            if (!own_name) path = tagged_path(path, tag);
        };
        add_tag(outputs.report, report);
        add_tag(outputs.trace, trace);
    }

    void begin_page() const {
        page->pid = getpid();
        page->rank = process_rank();
        for (std::int64_t* unknown :
             {&page->limit_bytes, &page->peak_bytes, &page->peak_resident_bytes, &page->pinned_bytes,
              &page->predicted_ns, &page->measured_ns, &page->infinite_ns, &page->lower_bound_ns})
            *unknown = -1;
        set_text(page->report, sizeof page->report, outputs.report);
        set_text(page->trace, sizeof page->trace, outputs.trace);
        page->magic = kRunPageMagic;
    }
};

RunSide& side() {
    static RunSide& instance = *new RunSide;  // never destroyed: hooks may run after static destructors
    return instance;
}

}  // namespace

const Outputs& outputs() {
    return side().outputs;
}

RunPage& run_page() {
    return *side().page;
}

bool has_launcher() {
    return side().launched;
}

void set_text(char* to, std::size_t room, const std::string& text) {
    const std::size_t length = std::min(room - 1, text.size());
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
}

}  // namespace swapadvisor
