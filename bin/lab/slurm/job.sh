#!/bin/bash
#SBATCH --partition=low --gres=gpu:1 --requeue --open-mode=append --signal=B:USR1@30
# The batch script of bin/lab/slurm-demo, and one task of tasks.sh. A task ends with another code, and by another file.
#   job.sh NAME CODE [OPTION...]    options of `gpuprocess slurm run`
task=${SLURM_ARRAY_TASK_ID:-${SLURM_PROCID:-0}}
stop=$LAB/shared/$1-$task.stop
code=$(($2 + task))
program=("$LAB/trainer")
[ "$1" != training ] || program=(python3 "$LAB_TRAINING")
# exec: the signal goes to the batch script alone, so that gpuprocess must be it
exec "$GPUPROCESS" slurm run --images "$LAB/shared/images" "${@:3}" -- "${program[@]}" "$stop" "$code" 200 "$LAB_MEBIBYTES"
