/* libcuda and libnvidia-ml of one machine, where a process has loaded both. The driver's functions take both off the
 * GPU: NVML's calls wait while the process is locked, and a checkpoint closes NVML's files. */
#ifndef SIM_NEIGHBOUR_H
#define SIM_NEIGHBOUR_H

/* A function of another library of this machine, or NULL while this process has not loaded that. */
void *neighbour(const char *library, const char *function);

/* In libcuda: NVML's calls stand between these two, as the driver API's do. Enter answers 0 where no gate is, and
 * leave must not be called then. */
int libcudaSimEnter(void);
void libcudaSimLeave(void);

/* In libnvidia-ml: closes its files, or opens those that it had. Called while the gate is closed. */
void libnvmlSimRelease(void);
void libnvmlSimReturn(void);

#endif
