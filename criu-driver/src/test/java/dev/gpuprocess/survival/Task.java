package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.util.Locale;

/** The verb during which a fault is injected. */
enum Task {
  SUSPEND {
    @Override
    void prepare(FaultCaseContext setup) {}

    @Override
    void act(FaultCaseContext setup) {
      setup.checkpoints().process(setup.pid()).suspend();
    }
  },
  RESUME {
    @Override
    void prepare(FaultCaseContext setup) {
      SUSPEND.act(setup);
    }

    @Override
    void act(FaultCaseContext setup) {
      found(setup).resume();
    }
  },
  INSURED_RESUME {
    @Override
    void prepare(FaultCaseContext setup) {
      SUSPEND.act(setup);
    }

    @Override
    void act(FaultCaseContext setup) {
      found(setup).resume(ResumeOptions.builder().fallbackImage(setup.image()).build());
    }
  },
  DUMP {
    @Override
    void prepare(FaultCaseContext setup) {
      SUSPEND.act(setup);
    }

    @Override
    void act(FaultCaseContext setup) {
      found(setup).dump(setup.image(), cancellable(setup));
    }
  },
  RESTORE {
    @Override
    void prepare(FaultCaseContext setup) {
      SUSPEND.act(setup);
      DUMP.act(setup);
    }

    @Override
    void act(FaultCaseContext setup) {
      setup.checkpoints().open(setup.image()).restore().resume();
    }
  },
  SNAPSHOT {
    @Override
    void prepare(FaultCaseContext setup) {}

    @Override
    void act(FaultCaseContext setup) {
      setup.checkpoints().process(setup.pid()).snapshot(setup.image(), cancellable(setup));
    }
  };

  /** Brings the process to the state in which the task begins. */
  abstract void prepare(FaultCaseContext setup);

  /** Does the task. */
  abstract void act(FaultCaseContext setup);

  /** Whether it is a dump that can be cancelled. */
  boolean isCancellable() {
    return this == DUMP || this == SNAPSHOT;
  }

  private static DumpOptions cancellable(FaultCaseContext setup) {
    return DumpOptions.builder().cancellation(setup.cancellation()).build();
  }

  private static CheckpointedProcess found(FaultCaseContext setup) {
    return (CheckpointedProcess) setup.checkpoints().inspect(setup.pid());
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }
}
