#!/bin/bash
#SBATCH --partition=low --gres=gpu:1 --ntasks=2 --requeue --open-mode=append
# The batch script of a job with two tasks, which share its GPU. Each of them gets the signals.
#   tasks.sh NAME CODE [OPTION...]    options of `gpuprocess slurm run`
exec srun --open-mode=append --output="$LAB/shared/$1-%t.out" bash "$LAB_JOB" "$@"
