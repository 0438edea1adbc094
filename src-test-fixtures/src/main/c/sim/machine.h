/* The simulated machine: one directory, holding this library, a `config` file and `state/`. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "../cuda_abi.h"

#define EXPORT __attribute__((visibility("default")))
#define SIM_MAX_GPUS 16
#define MIB (1024ull * 1024ull)

struct machine {
  char dir[PATH_MAX - 128];      /* room is left for the names below it */
  int gpus;
  uint64_t memory;               /* bytes of each GPU */
  uint64_t context_memory;       /* bytes of GPU memory that a context takes by itself */
  uint64_t save_overhead;        /* bytes of host memory that a checkpoint takes for each context by itself */
  int version;                   /* as cuDriverGetVersion gives it */
  char driver[32];               /* as NVML gives it */
  uint64_t checkpoint_bandwidth; /* bytes per second of a checkpoint's copy; 0: as fast as memcpy */
  uint64_t restore_bandwidth;    /* and of a restore's */
  bool process_memory;           /* false: NVML does not tell what each process holds */
  char control_name[16];         /* name of the restore thread in a process of this machine */
  CUuuid uuid[SIM_MAX_GPUS];
};

/* The machine as configured when this process first asked. */
const struct machine *machine(void);

/* Reads the configuration again: a process restored by CRIU may find other GPUs than it left. */
void machine_reload(void);

/* Writes the path of a file of the machine into `path` (PATH_MAX bytes). */
__attribute__((format(printf, 2, 3))) void machine_path(char *path, const char *format, ...);

/* Opens a file of the machine that all of its processes may write, and creates it if it is missing; -1 on error. The
 * mode of a file that is there is not set again: that would wait for the disk. */
int machine_open(const char *name);

/* Index of the GPU with that UUID, or -1. */
int machine_find(const CUuuid *uuid);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and back (0, or -1 if the text has another form). */
void uuid_format(const CUuuid *uuid, char text[41]);
int uuid_parse(const char *text, CUuuid *uuid);

#endif
