package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.util.Locale;

/** What is done to the process while something goes wrong. */
enum Task {
  SUSPEND {
    @Override
    void prepare(FaultCaseContext scene) {}

    @Override
    void act(FaultCaseContext scene) {
      scene.checkpoints().process(scene.pid()).suspend();
    }
  },
  RESUME {
    @Override
    void prepare(FaultCaseContext scene) {
      SUSPEND.act(scene);
    }

    @Override
    void act(FaultCaseContext scene) {
      found(scene).resume();
    }
  },
  INSURED_RESUME {
    @Override
    void prepare(FaultCaseContext scene) {
      SUSPEND.act(scene);
    }

    @Override
    void act(FaultCaseContext scene) {
      found(scene).resume(ResumeOptions.builder().fallbackImage(scene.image()).build());
    }
  },
  DUMP {
    @Override
    void prepare(FaultCaseContext scene) {
      SUSPEND.act(scene);
    }

    @Override
    void act(FaultCaseContext scene) {
      found(scene).dump(scene.image(), cancellable(scene));
    }
  },
  RESTORE {
    @Override
    void prepare(FaultCaseContext scene) {
      SUSPEND.act(scene);
      DUMP.act(scene);
    }

    @Override
    void act(FaultCaseContext scene) {
      scene.checkpoints().open(scene.image()).restore().resume();
    }
  },
  SNAPSHOT {
    @Override
    void prepare(FaultCaseContext scene) {}

    @Override
    void act(FaultCaseContext scene) {
      scene.checkpoints().process(scene.pid()).snapshot(scene.image(), cancellable(scene));
    }
  };

  /** Brings the process to where the task begins. */
  abstract void prepare(FaultCaseContext scene);

  /** Does the task. */
  abstract void act(FaultCaseContext scene);

  /** Whether it is a dump that can be cancelled. */
  boolean isCancellable() {
    return this == DUMP || this == SNAPSHOT;
  }

  private static DumpOptions cancellable(FaultCaseContext scene) {
    return DumpOptions.builder().cancellation(scene.cancellation()).build();
  }

  private static CheckpointedProcess found(FaultCaseContext scene) {
    return (CheckpointedProcess) scene.checkpoints().inspect(scene.pid());
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }
}
