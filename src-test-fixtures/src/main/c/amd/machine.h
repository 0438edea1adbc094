/* The directory that stands for a machine with an AMD GPU: see plugin.c. */
#ifndef AMD_MACHINE_H
#define AMD_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The most that a process has in GPU memory, with the end of its text. */
#define AMD_VRAM 64

bool amd_is_kfd(const char *path);
bool amd_is_device(const char *path);

/* The directory, PATH_MAX bytes, of the path of a device. */
void amd_machine_of(const char *device, char *machine);

/* MACHINE/NAME */
void amd_path(char *path, const char *machine, const char *name);

/* MACHINE/KIND/PID */
void amd_memory_path(char *path, const char *machine, const char *kind, pid_t pid);

/* Reads a small file as text; its length, or -1. */
ssize_t amd_read(int directory, const char *path, char *text, size_t size);

/* Replaces a small file by text; 0, or -1. */
int amd_write(int directory, const char *path, const char *text);

#endif
