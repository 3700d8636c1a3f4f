#include "interpose/command/supervise.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace swapadvisor::command {

namespace {

constexpr int kConfirmSeconds = 20;

struct Pipe {
    int ends[2] = {-1, -1};
    explicit Pipe(int flags) { (void)!pipe2(ends, flags); }
    ~Pipe() {
        close_read();
        close_write();
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void close_read() { close_end(0); }
    void close_write() { close_end(1); }

  private:
    void close_end(int which) {
        if (ends[which] >= 0) close(ends[which]);
        ends[which] = -1;
    }
};

/// What is forwarded: all but what cannot be, and what the terminal's job control is about.
sigset_t watched_signals() {
    sigset_t all;
    sigfillset(&all);
    for (const int signal : {SIGKILL, SIGSTOP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH, SIGURG, SIGPIPE})
        sigdelset(&all, signal);
    return all;
}

/// The shim's word, or why it did not come. Complains once; true while it is still waited for.
bool hear_shim(int descriptor, bool in_time, const Supervision& supervision) {
    char word = 0;
    if (!in_time)
        fmt::print(stderr, "swapadvisor: {} has not loaded the shim: it runs without SwapAdvisor\n",
                   supervision.path);
    else if (read(descriptor, &word, 1) != 1 && !supervision.may_be_silent)
        fmt::print(stderr, "swapadvisor: {} has not loaded the shim: it ended without SwapAdvisor\n",
                   supervision.path);
    return false;
}

/// The companion's life. `end` gives a ProgramEnd, or its end of file if the launcher was killed.
[[noreturn]] void accompany(const Supervision& supervision, int confirm, int end) {
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE})
        std::signal(signal, SIG_IGN);
    if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
        dup2(null, STDIN_FILENO);  // whoever waits for the end of the program's output waits for the program
        dup2(null, STDOUT_FILENO);
    }
    bool waiting = confirm >= 0;
    ProgramEnd program;
    while (true) {
        pollfd both[] = {{end, POLLIN, 0}, {confirm, POLLIN, 0}};
        const int ready = poll(both, waiting ? 2 : 1, waiting ? kConfirmSeconds * 1000 : -1);
        if (ready < 0 && errno == EINTR) continue;
        if (waiting && (ready == 0 || both[1].revents != 0))
            waiting = hear_shim(confirm, ready > 0, supervision);
        if (both[0].revents == 0) continue;
        program.known = read(end, &program, sizeof program) == sizeof program;
        break;
    }
    if (program.pid >= 0) supervision.afterwards(program);
    std::fflush(nullptr);
    _exit(0);
}

/// The program's side of the fork.
[[noreturn]] void become(const Supervision& supervision, const sigset_t& mask, pid_t launcher, int failure) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // as if it were the launcher that is killed
    if (getppid() != launcher) _exit(1);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    std::vector<char*> words;
    for (const std::string& word : supervision.program) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    const int why = errno;
    (void)!write(failure, &why, sizeof why);
    _exit(127);
}

/// Stops with the program, and forwards what is sent to the launcher alone. Returns how the program ended.
int wait_for(pid_t program, const sigset_t& watched) {
    for (;;) {
        siginfo_t info;
        const int signal = sigwaitinfo(&watched, &info);
        if (signal < 0) continue;
        if (signal != SIGCHLD) {
            // The terminal's go to the whole group; what the program itself sends to its group it knows.
            const bool sent = info.si_code == SI_USER || info.si_code == SI_QUEUE || info.si_code == SI_TKILL;
            if (sent && info.si_pid != program) kill(program, signal);
            continue;
        }
        int status = 0;
        while (waitpid(program, &status, WNOHANG | WUNTRACED) == program) {
            if (!WIFSTOPPED(status)) return status;
            raise(SIGSTOP);
            kill(program, SIGCONT);
        }
    }
}

}  // namespace

int supervise(const Supervision& supervision) {
    Pipe confirm(0), end(O_CLOEXEC), failure(O_CLOEXEC);
    const pid_t companion = fork();
    if (companion == 0) {
        confirm.close_write();
        end.close_write();
        failure.close_read();
        failure.close_write();
        accompany(supervision, supervision.confirm ? confirm.ends[0] : -1, end.ends[0]);
    }
    confirm.close_read();
    end.close_read();
    if (supervision.confirm)
        setenv("SWAPADVISOR_CONFIRM_FD", std::to_string(confirm.ends[1]).c_str(), 1);
    else
        confirm.close_write();

    const sigset_t watched = watched_signals();
    sigset_t before;
    sigprocmask(SIG_BLOCK, &watched, &before);
    const auto child_signal = std::signal(SIGCHLD, SIG_DFL);  // if ignored, nothing could be waited for
    const pid_t launcher = getpid();
    ProgramEnd program;
    program.pid = fork();
    if (program.pid == 0) {
        std::signal(SIGCHLD, child_signal);
        become(supervision, before, launcher, failure.ends[1]);
    }
    failure.close_write();
    int why = program.pid < 0 ? errno : 0;
    if (program.pid > 0 && read(failure.ends[0], &why, sizeof why) != sizeof why) why = 0;
    if (why == 0) {
        confirm.close_write();
        program.wait_status = wait_for(program.pid, watched);
        program.known = true;
    } else {
        // The companion has nothing to add. (It must not take the closed pipe for an end without a word.)
        if (supervision.confirm) (void)!write(confirm.ends[1], "0", 1);
        confirm.close_write();
        if (program.pid > 0) waitpid(program.pid, nullptr, 0);
        program.pid = -1;
        program.known = true;
    }
    (void)!write(end.ends[1], &program, sizeof program);
    end.close_write();
    if (companion > 0) waitpid(companion, nullptr, 0);
    if (why != 0) {
        supervision.not_started();
        fmt::print(stderr, "error: cannot start {}: {}\n", supervision.path, std::strerror(why));
        return why == ENOENT ? 127 : 126;
    }
    if (!WIFSIGNALED(program.wait_status)) return WEXITSTATUS(program.wait_status);
    const int signal = WTERMSIG(program.wait_status);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);  // the program's own is there already
    std::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    raise(signal);
    return 128 + signal;
}

}  // namespace swapadvisor::command
