#include "interpose/command/run_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "interpose/run_page.h"
#include "recorder/output_path.h"
#include "recorder/report_model.h"
#include "recorder/trace_analysis.h"
#include "recorder/trace_reader.h"

namespace swapadvisor::command {

namespace fs = std::filesystem;

namespace {

bool read_page(const fs::path& path, RunPage& page) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool whole = read(file, static_cast<void*>(&page), sizeof page) == sizeof page;
    close(file);
    // Texts of a process that was killed while it wrote them.
    for (char* last : {std::end(page.device) - 1, std::end(page.mode) - 1, std::end(page.program) - 1,
                       std::end(page.report) - 1, std::end(page.trace) - 1, std::end(page.problem) - 1})
        *last = '\0';
    return whole && page.magic == kRunPageMagic;
}

/// Zombies, which wait for a parent that may never look, do not run.
bool is_running(std::int64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t name_end = text.rfind(')');  // the name may hold anything
    if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
    return text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

std::string how_it_ended(const RunPage& page, const ProgramEnd& end) {
    std::string how = "without a word (killed, or by _exit)";
    if (!end.known) {
        how = "by SIGKILL to the launcher";
    } else if (page.pid == end.pid) {
        if (WIFSIGNALED(end.wait_status)) {
            const char* name = sigabbrev_np(WTERMSIG(end.wait_status));
            how =
                name ? fmt::format("by SIG{}", name) : fmt::format("by signal {}", WTERMSIG(end.wait_status));
        } else {
            how = fmt::format("by _exit({})", WEXITSTATUS(end.wait_status));
        }
    }
    return page.iterations > 0
               ? fmt::format("{} in iteration {}", how, page.iterations + 1)
               : fmt::format("{} in operation {}, before any iteration was known", how, page.ops);
}

/// What the trace's whole blocks say, if there is one, with what the page knows better.
ReportModel model_of(const RunPage& page, const std::string& ended) {
    ReportModel m;
    if (page.trace[0] != 0) {
        try {
            m = analyse_trace(page.trace).model;
        } catch (const TraceError&) {
            m = {};
        }
    }
    m.source = "run";
    m.ended = ended;
    m.pid = page.pid;
    m.rank = page.rank;
    if (page.program[0] != 0) m.program = page.program;
    if (m.device.name.empty()) m.device.name = page.device;
    if (m.device.memory_bytes <= 0) m.device.memory_bytes = page.device_bytes;
    m.mode = page.mode;
    m.limit_bytes = page.limit_bytes;
    m.peak_bytes = std::max(m.peak_bytes, page.peak_bytes);
    m.peak_resident_bytes = page.peak_resident_bytes;
    m.pinned_bytes = page.pinned_bytes;
    m.iterations = std::max(m.iterations, page.iterations);
    m.planned_iterations = page.planned_iterations;
    m.divergences = page.divergences;
    m.in_bytes_total = page.in_bytes_total;
    m.out_bytes_total = page.out_bytes_total;
    if (m.ops_per_iteration == kUnknown && page.ops_per_iteration > 0)
        m.ops_per_iteration = page.ops_per_iteration;
    if (page.predicted_ns > 0) m.predicted_ns = page.predicted_ns;
    if (page.measured_ns > 0) m.measured_ns_per_iteration = page.measured_ns;
    if (page.lower_bound_ns > 0) m.lower_bound_ns = page.lower_bound_ns;
    if (m.infinite_ns_per_iteration == kUnknown && page.infinite_ns > 0)
        m.infinite_ns_per_iteration = page.infinite_ns;
    if (page.trace[0] == 0)
        m.notes.push_back(
            "The program did not come to its own end, so this is what was known of it from outside; with "
            "--trace FILE all of it would be");
    return m;
}

/// Ends the work of one process and says what there is of it. `many`: it is one of several.
void conclude_process(const RunPage& page, const ProgramEnd& end, bool asked, bool many, bool quiet) {
    const RunStage stage = page.stage.load(std::memory_order_acquire);
    if (stage == RunStage::refused) return;
    std::string line;
    if (stage == RunStage::running) {
        // A process that goes on after the one that was started writes what it has when it ends.
        if (page.pid != end.pid && is_running(page.pid)) return;
        line = "ended " + how_it_ended(page, end);
        if (page.report[0] != 0 && !write_exit_report(model_of(page, line.substr(6)), page.report))
            fmt::print(stderr, "swapadvisor: the report could not be written to {}: {}\n", page.report,
                       std::strerror(errno));
    }
    if (page.problem[0] != 0) fmt::print(stderr, "swapadvisor: {}\n", page.problem);
    if (quiet) return;
    std::string there = outputs_text(page.report, page.trace);
    if (!asked && page.swapped != 0) there = summary_text(page) + " (-o FILE: a report)";
    if (!there.empty() && !line.empty()) line += "; ";
    line += there;
    if (line.empty()) return;
    if (many)
        line = fmt::format("process {}{}: {}", page.pid,
                           page.rank >= 0 ? fmt::format(" (rank {})", page.rank) : "", line);
    fmt::print(stderr, "swapadvisor: {}\n", line);
}

/// Folders of launchers that were killed together with their companions.
void sweep(const fs::path& parent, const std::string& start) {
    std::error_code error;
    for (fs::directory_iterator it(parent, error), last; !error && it != last; it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (!name.starts_with(start)) continue;
        const long pid = std::atol(name.c_str() + start.size());
        struct stat info {};
        if (pid <= 0 || kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) continue;
        if (stat(it->path().c_str(), &info) != 0 || info.st_uid != geteuid()) continue;
        std::error_code ignored;
        fs::remove_all(it->path(), ignored);
    }
}

}  // namespace

RunFolder::RunFolder() {
    unsetenv("SWAPADVISOR_RUN");
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    if (error) return;
    const std::string start = "swapadvisor-run-";
    sweep(parent, start);
    std::string path = (parent / (start + std::to_string(getpid()) + "-XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) return;
    path_ = path;
    setenv("SWAPADVISOR_RUN", path_.c_str(), 1);
}

void RunFolder::remove() const {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

void RunFolder::conclude(const ProgramEnd& end, bool asked, bool quiet) {
    std::vector<std::unique_ptr<RunPage>> pages;
    std::error_code error;
    if (path_.empty()) return;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
        auto page = std::make_unique<RunPage>();
        if (read_page(entry.path(), *page)) pages.push_back(std::move(page));
    }
    std::sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) {
        return a->rank != b->rank ? a->rank < b->rank : a->pid < b->pid;
    });
    if (!end.known) {  // the program is killed with the launcher, a moment later
        for (const auto& page : pages)
            for (int i = 0; i < 100 && is_running(page->pid); ++i) usleep(10'000);
    }
    for (const auto& page : pages) conclude_process(*page, end, asked, pages.size() > 1, quiet);
    if (pages.empty() && asked && !quiet)
        fmt::print(stderr, "swapadvisor: no CUDA call was seen: nothing was written\n");
    remove();
}

// --- outputs
// ---------------------------------------------------------------------------------------------------

std::string OutputFiles::open_one(const std::string& path) {
    if (path.empty() || path == "-") return "";
    const auto fail = [&](const std::string& what) {
        return fmt::format("cannot write {}: {}", what, std::strerror(errno));
    };
    std::error_code error;
    const bool folder = fs::is_directory(path, error);
    if (folder || path.find("%p") != std::string::npos || path.find("%r") != std::string::npos) {
        std::string parent = folder ? path : fs::path(path).parent_path().string();
        if (parent.empty()) parent = ".";
        return access(parent.c_str(), W_OK | X_OK) == 0 ? "" : fail(path);
    }
    const bool there = fs::exists(path, error);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file < 0) return errno == ENXIO ? "" : fail(path);  // a pipe that nobody reads yet
    close(file);
    if (!there) made_.push_back(path);
    return "";
}

std::string OutputFiles::open(const std::string& report, const std::string& trace) {
    std::error_code error;
    const bool plain = !report.empty() && report != "-" && !fs::is_directory(report, error);
    if (plain && (report == trace || report + ".json" == trace))
        return fmt::format("{} is the name of both the trace and the report: give the trace another", trace);
    std::string problem = open_one(report);
    // The report's JSON lies beside it.
    if (problem.empty() && plain && !fs::is_other(report, error)) problem = open_one(report + ".json");
    if (problem.empty()) problem = open_one(trace);
    if (!problem.empty()) remove_unused();
    return problem;
}

void OutputFiles::remove_unused() const {
    for (const std::string& path : made_) {
        struct stat info {};
        if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
            unlink(path.c_str());
    }
}

}  // namespace swapadvisor::command
