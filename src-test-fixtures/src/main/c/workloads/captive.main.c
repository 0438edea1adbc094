/*
 * captive FILE SUBJECT [main]
 *
 * A process whose threads are borrowed by a tracer while they check themselves. SUBJECT is what its thread does; with
 * `main` that is the first thread, else another one, and the first has ended.
 *
 * The process is a child of the one that was started, which only waits: a JVM that started it would take a stop of its
 * own child for its end. It dies with that one, and that one when its standard input ends.
 *
 * FILE is an array of 64-bit words, see struct board.
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct board {
  _Atomic uint64_t pid, tid; /* tid: of the subject, when it is there */
  _Atomic uint64_t ticks;    /* rounds that were right */
  _Atomic uint64_t wrong;    /* rounds that were not */
  _Atomic uint64_t what;     /* what was wrong first: a line of this file */
  _Atomic uint64_t value;    /* of the subject's own */
  _Atomic uint64_t address, bytes;
  _Atomic uint64_t wish; /* written from outside */
};

static struct board *board;

static void wrong(int line) {
  uint64_t none = 0;
  atomic_compare_exchange_strong(&board->what, &none, (uint64_t)line);
  board->wrong++;
}

#define expect(condition) \
  do { \
    if (!(condition)) wrong(__LINE__); \
  } while (0)

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* These calls never return: any result is wrong. */

static void in_futex(void) {
  static int word;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  wrong(__LINE__);
}

static void in_read(void) {
  int ends[2];
  char byte;
  if (pipe(ends)) _exit(3);
  expect(read(ends[0], &byte, 1) == 17);
}

static void in_epoll(void) {
  struct epoll_event event;
  expect(epoll_wait(epoll_create1(0), &event, 1, -1) == 17);
}

static void *wait_for_events(void *x) {
  in_epoll();
  return x;
}

static void in_epolls(void) {
  for (int i = 0; i < 3; i++) {
    pthread_t one;
    if (pthread_create(&one, NULL, wait_for_events, NULL)) _exit(3);
  }
  in_epoll();
}

static void in_timedwait(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  expect(sigwaitinfo(&set, NULL) == 17);
}

/* These wait for a time, which is never shorter, and no error. */

static const double pause_time = 0.2;

static void in_poll(void) {
  for (;;) {
    double begin = seconds();
    expect(poll(NULL, 0, (int)(pause_time * 1000)) == 0);
    double took = seconds() - begin;
    expect(took >= pause_time);
    if (took > (double)board->value / 1e9) board->value = (uint64_t)(took * 1e9);
    board->ticks++;
  }
}

static void in_nanosleep(void) {
  for (;;) {
    struct timespec time = {.tv_nsec = (long)(pause_time * 1e9)};
    double begin = seconds();
    expect(nanosleep(&time, NULL) == 0);
    double took = seconds() - begin;
    expect(took >= pause_time);
    if (took > (double)board->value / 1e9) board->value = (uint64_t)(took * 1e9);
    board->ticks++;
  }
}

/* Signals that wait, and those that are let through for the time of a call only. */

static void handle(int signal) {
  (void)signal;
  board->value++;
}

static void with_pending(void) {
  sigset_t set, now;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 3);
  signal(SIGUSR1, handle);
  signal(SIGRTMIN + 3, handle);
  sigprocmask(SIG_BLOCK, &set, NULL);
  pthread_kill(pthread_self(), SIGUSR1);
  pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = 5});
  for (;;) {
    sigpending(&now);
    expect(sigismember(&now, SIGUSR1) && sigismember(&now, SIGRTMIN + 3) && !sigismember(&now, SIGUSR2));
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    expect(sigismember(&now, SIGUSR1) && sigismember(&now, SIGRTMIN + 3) && !sigismember(&now, SIGUSR2));
    expect(board->value == 0);
    board->ticks++;
  }
}

static void in_sigsuspend(void) {
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  signal(SIGUSR1, handle);
  for (uint64_t got = 0;; got = board->value) {
    expect(sigsuspend(&none) == -1 && errno == EINTR);
    expect(board->value == got + 1);
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    expect(sigismember(&now, SIGUSR1));
    board->ticks++;
  }
}

/* All registers, live, in a loop of some tenths of a millisecond. */

enum { SPINS = 300000 };

static _Alignas(64) uint8_t vectors[32][64], seen[32][64];
static uint64_t masks[8], masks_seen[8];

static void spin_avx512(void) {
  uint64_t left = SPINS;
#define LOAD(n) "vmovdqa64 " #n "*64(%[in]), %%zmm" #n "\n"
#define STORE(n) "vmovdqa64 %%zmm" #n ", " #n "*64(%[out])\n"
#define ALL(x) \
  x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15) x(16) x(17) x(18) x(19) x(20) \
      x(21) x(22) x(23) x(24) x(25) x(26) x(27) x(28) x(29) x(30) x(31)
#define LOAD_MASK(n) "kmovq " #n "*8(%[kin]), %%k" #n "\n"
#define STORE_MASK(n) "kmovq %%k" #n ", " #n "*8(%[kout])\n"
#define MASKS(x) x(1) x(2) x(3) x(4) x(5) x(6) x(7)
  __asm__ volatile(ALL(LOAD) MASKS(LOAD_MASK) "1: dec %[left]\njnz 1b\n" ALL(STORE) MASKS(STORE_MASK) "vzeroupper\n"
                   : [left] "+r"(left)
                   : [in] "r"(vectors), [out] "r"(seen), [kin] "r"(masks), [kout] "r"(masks_seen)
                   : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  expect(memcmp(vectors, seen, sizeof vectors) == 0);
  expect(memcmp(masks + 1, masks_seen + 1, 7 * sizeof masks[0]) == 0);
}

static void spin_avx(void) {
  uint64_t left = SPINS;
#define LOAD_Y(n) "vmovdqa " #n "*64(%[in]), %%ymm" #n "\n"
#define STORE_Y(n) "vmovdqa %%ymm" #n ", " #n "*64(%[out])\n"
#define ALL_Y(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)
  __asm__ volatile(ALL_Y(LOAD_Y) "1: dec %[left]\njnz 1b\n" ALL_Y(STORE_Y) "vzeroupper\n"
                   : [left] "+r"(left)
                   : [in] "r"(vectors), [out] "r"(seen)
                   : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  for (int i = 0; i < 16; i++) expect(memcmp(vectors[i], seen[i], 32) == 0);
}

static void spin_general(uint64_t round) {
  uint64_t in[8], out[8], flags = 0, left = SPINS;
  for (int i = 0; i < 8; i++) in[i] = round * 0x9e3779b97f4a7c15u + (uint64_t)i;
  /* A word in the red zone, and the carry and direction flags, are live in the loop too. */
  __asm__ volatile(
      "mov 0(%[in]), %%r8\nmov 8(%[in]), %%r9\nmov 16(%[in]), %%r10\nmov 24(%[in]), %%r11\n"
      "mov 32(%[in]), %%r12\nmov 40(%[in]), %%r13\nmov 48(%[in]), %%r14\nmov 56(%[in]), %%r15\n"
      "mov %%r8, -128(%%rsp)\nstd\nstc\n"
      "1: dec %[left]\njnz 1b\n"
      "pushfq\npop %[flags]\ncld\n"
      "mov %%r8, 0(%[out])\nmov %%r9, 8(%[out])\nmov %%r10, 16(%[out])\nmov %%r11, 24(%[out])\n"
      "mov %%r12, 32(%[out])\nmov %%r13, 40(%[out])\nmov %%r14, 48(%[out])\nmov -128(%%rsp), %%r15\n"
      "mov %%r15, 56(%[out])\n"
      : [left] "+r"(left), [flags] "+r"(flags)
      : [in] "r"(in), [out] "r"(out)
      : "memory", "cc", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
  expect(memcmp(in, out, 7 * sizeof in[0]) == 0 && out[7] == in[0]);
  expect((flags & 0x401) == 0x401);
}

static void spin_x87(void) {
  uint64_t left = SPINS;
  uint32_t mxcsr = 0x9fc0, mxcsr_seen = 0, mxcsr_plain = 0x1f80;
  uint16_t word = 0x027f, word_seen = 0, word_plain = 0x037f;
  double pi = 0;
  __asm__ volatile("ldmxcsr %[m]\nfldcw %[w]\nfldpi\n1: dec %[left]\njnz 1b\nfstpl %[pi]\nfnstcw %[ws]\nstmxcsr %[ms]\n"
                   "ldmxcsr %[mp]\nfldcw %[wp]\n"
                   : [left] "+r"(left), [pi] "=m"(pi), [ms] "=m"(mxcsr_seen), [ws] "=m"(word_seen)
                   : [m] "m"(mxcsr), [w] "m"(word), [mp] "m"(mxcsr_plain), [wp] "m"(word_plain)
                   : "memory", "cc");
  expect(pi > 3.14159265358979 && pi < 3.14159265358980);
  expect(mxcsr_seen == mxcsr);
  expect(word_seen == word);
}

static void spinning(void) {
  bool avx512 = __builtin_cpu_supports("avx512bw"), avx = __builtin_cpu_supports("avx");
  enum { WORDS = 1 << 16 };
  uint64_t *memory = malloc(WORDS * sizeof *memory);
  for (uint64_t i = 0; i < WORDS; i++) memory[i] = i * 0x9e3779b97f4a7c15u;
  for (uint64_t round = 1;; round++) {
    for (int i = 0; i < 32; i++) memset(vectors[i], (int)(round + (uint64_t)i * 7), 64);
    for (int i = 0; i < 8; i++) masks[i] = round * 31 + (uint64_t)i;
    if (avx512) spin_avx512();
    else if (avx) spin_avx();
    spin_general(round);
    spin_x87();
    for (uint64_t i = 0; i < WORDS; i++)
      if (memory[i] != i * 0x9e3779b97f4a7c15u) {
        wrong(__LINE__);
        break;
      }
    board->value = avx512 ? 512 : avx ? 256 : 128;
    board->ticks++;
  }
}

/*
 * A restartable sequence that takes a millisecond. The wish is changed only while the thread is stopped, so a thread that
 * gets to the end has seen the same wish at both ends, or continues where it should have been aborted.
 */

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static void in_sequence(void) {
  if (!&__rseq_size || __rseq_size == 0) _exit(77);
  struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
  static uint64_t begin, end;
  for (;;) {
    __asm__ volatile goto(
        ".pushsection __rseq_cs, \"aw\"\n.balign 32\n3:\n.long 0, 0\n.quad 1f, (2f - 1f), 4f\n.popsection\n"
        "leaq 3b(%%rip), %%rax\nmovq %%rax, %[cs]\n"
        "1: movq %[wish], %%rax\nmovq %%rax, %[begin]\nmovl %[spins], %%ecx\n"
        "6: decl %%ecx\njnz 6b\n"
        "movq %[wish], %%rax\nmovq %%rax, %[end]\n2:\njmp 5f\n"
        ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n" /* the signature, in an instruction that traps */
        "4: jmp %l[abort]\n5:\n"
        :
        : [cs] "m"(area->rseq_cs), [wish] "m"(board->wish), [begin] "m"(begin), [end] "m"(end), [spins] "i"(SPINS)
        : "memory", "cc", "rax", "rcx"
        : abort);
    expect(begin == end);
    board->ticks++;
    continue;
  abort:
    board->value++;
  }
}

/* Stacks that are not the thread's own, or not all of it. */

static void spin_for_ever(void) {
  for (;;) board->ticks++;
}

static void on_signal_spin(int signal) {
  (void)signal;
  spin_for_ever();
}

static void on_alternate(void *stack, size_t bytes) {
  stack_t alternate = {.ss_sp = stack, .ss_size = bytes};
  sigaltstack(&alternate, NULL);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal_spin, .sa_flags = SA_ONSTACK}, NULL);
  pthread_kill(pthread_self(), SIGUSR1);
}

static void alternate_mapped(void) {
  on_alternate(mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 16);
}

static void alternate_in_stack(void) {
  char array[1 << 14];
  on_alternate(array, sizeof array);
}

/* An alternate stack that is set but not in use must stay what it is. */
static void alternate_kept(void) {
  void *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t now;
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = 1 << 16}, NULL);
  for (;;) {
    sigaltstack(NULL, &now);
    expect(now.ss_sp == stack && now.ss_size == 1 << 16 && now.ss_flags == 0);
    board->ticks++;
  }
}

static ucontext_t here, there;

static void coroutine(void) {
  size_t bytes = 1 << 13;
  getcontext(&there);
  there.uc_stack.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  there.uc_stack.ss_size = bytes;
  makecontext(&there, spin_for_ever, 0);
  swapcontext(&here, &there);
}

/* As a goroutine's: a few KiB in a heap, and what the thread pointer leads to is in the same heap, above it. */
static void goroutine(void) {
  size_t bytes = 64 << 20;
  char *heap = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  _Atomic uint64_t *ticks = &board->ticks;
  __asm__ volatile("mov %%rsp, %%rbx\nmov %[stack], %%rsp\nsyscall\n1: incq (%[ticks])\njmp 1b\n"
                   :
                   : [stack] "r"(heap + bytes / 2), [ticks] "r"(ticks), "a"(SYS_arch_prctl), "D"(0x1002 /* ARCH_SET_FS */),
                     "S"(heap + bytes / 2 + 4096)
                   : "memory", "rbx", "rcx", "r11");
}

/* Threads that come and go. */

static void *short_life(void *x) {
  board->ticks++;
  return x;
}

static void churning(void) {
  for (;;) {
    pthread_t some[8];
    for (int i = 0; i < 8; i++)
      if (pthread_create(&some[i], NULL, short_life, NULL)) _exit(3);
    for (int i = 0; i < 8; i++) pthread_join(some[i], NULL);
  }
}

static void *spin_thread(void *x) {
  for (;;) board->ticks++;
  return x;
}

static void crowd(void) {
  for (int i = 0; i < 3; i++) {
    pthread_t one;
    if (pthread_create(&one, NULL, spin_thread, NULL)) _exit(3);
  }
  churning();
}

/* The first thread ends on request, and another thread continues. */
static void leaving(void) {
  pthread_t one;
  if (pthread_create(&one, NULL, spin_thread, NULL)) _exit(3);
  while (!board->wish) continue;
  syscall(SYS_exit, 0);
}

/* A thread in vfork waits uninterruptibly until its child executes a program. */
static void vforking(void) {
  for (;;) {
    pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", (char *)NULL);
      _exit(3);
    }
    int status = 1;
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    board->ticks++;
  }
}

/* Seccomp. */

static void filter(uint32_t number, uint32_t answer) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
}

static void seccomp_strict(void) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(3);
  spin_for_ever();
}

static void seccomp_allows(void) {
  filter(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM);
  spin_for_ever();
}

static void seccomp_kills(void) {
  filter(SYS_madvise, SECCOMP_RET_KILL_PROCESS);
  spin_for_ever();
}

/* A large private mapping, untouched. */
static void area(void) {
  size_t bytes = 64 << 20;
  board->bytes = bytes;
  board->address = (uint64_t)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  spin_for_ever();
}

static const struct subject {
  const char *name;
  void (*run)(void);
} SUBJECTS[] = {
    {"futex", in_futex},
    {"read", in_read},
    {"epoll", in_epoll},
    {"epolls", in_epolls},
    {"sigwait", in_timedwait},
    {"poll", in_poll},
    {"nanosleep", in_nanosleep},
    {"pending", with_pending},
    {"sigsuspend", in_sigsuspend},
    {"spin", spinning},
    {"rseq", in_sequence},
    {"alternate-mapped", alternate_mapped},
    {"alternate-in-stack", alternate_in_stack},
    {"alternate-kept", alternate_kept},
    {"coroutine", coroutine},
    {"goroutine", goroutine},
    {"churn", churning},
    {"crowd", crowd},
    {"leaving", leaving},
    {"vforking", vforking},
    {"seccomp-strict", seccomp_strict},
    {"seccomp-allows", seccomp_allows},
    {"seccomp-kills-madvise", seccomp_kills},
    {"area", area},
};

/* pthread_exit maps the library that unwinds stacks: before the end of the first thread the mappings still change. */
static void await_end_of_first_thread(void) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/self/task/%d/stat", getpid());
  for (;;) {
    int file = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (length <= 0) _exit(3);
    close(file);
    text[length] = 0;
    const char *name_end = strrchr(text, ')');
    if (name_end && name_end[2] == 'Z') return;
    sched_yield();
  }
}

static void *run(void *subject) {
  if (gettid() != getpid()) await_end_of_first_thread();
  board->tid = (uint64_t)gettid();
  ((const struct subject *)subject)->run();
  wrong(__LINE__);
  for (;;) pause();
  return NULL;
}

static void live(const struct subject *subject, bool first) {
  pthread_t thread;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  board->pid = (uint64_t)getpid();
  if (first) run((void *)subject);
  if (pthread_create(&thread, NULL, run, (void *)subject)) _exit(3);
  pthread_exit(NULL);
}

int main(int argc, char **argv) {
  const struct subject *subject = NULL;
  for (size_t i = 0; argc >= 3 && i < sizeof SUBJECTS / sizeof SUBJECTS[0]; i++)
    if (strcmp(argv[2], SUBJECTS[i].name) == 0) subject = &SUBJECTS[i];
  int file = argc >= 3 ? open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (!subject || file < 0 || ftruncate(file, 4096)) {
    fprintf(stderr, "usage: captive FILE SUBJECT [main]\n");
    return 2;
  }
  board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (board == MAP_FAILED) return 2;
  pid_t pid = fork();
  if (pid == 0) live(subject, argc > 3);
  char byte;
  while (pid > 0 && read(0, &byte, 1) > 0) continue;
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return 0;
}
