/* The job file of driver 590 and later: CUDA_CHECKPOINT_JOB_FILE names a file that all processes of a job and their
 * controller see. Its format is not published; this one has what is needed to refuse what
 * cannot be right, as far as that is known: the facts are of the file, the answers are simulated. */
#ifndef SIM_JOB_FILE_H
#define SIM_JOB_FILE_H

#include "control.h"

/* Caller's side: which file its environment names now goes with the call. */
void job_file_name(struct control_call *call);

/* Target's side, at its cuInit: becomes a member of the job that its environment names, if any; 0, or -1. */
int job_file_join(void);

/* Target's side, before a call that moves the process: CUDA_ERROR_INVALID_VALUE when the caller's environment names
 * another file than this process's, or none. */
CUresult job_file_same(const struct control_call *call);

/* Writes down that this process is checkpointed. */
CUresult job_file_left(void);

/* Looks whether the file knows of that checkpoint, and of nothing later: CUDA_ERROR_INVALID_VALUE when it is a copy from
 * before, or one that another copy of this process has used. */
CUresult job_file_knows(void);

/* Writes down that this process is restored. */
CUresult job_file_returned(void);

#endif
