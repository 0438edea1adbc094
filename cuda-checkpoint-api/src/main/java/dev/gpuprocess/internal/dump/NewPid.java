package dev.gpuprocess.internal.dump;

import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.VetoException;
import java.util.function.IntConsumer;

/**
 * Tells which pid a tree with a pid namespace of its own has got, as soon as there is a process of
 * it: a recovery must find it if we die.
 *
 * @param carried is told of the stages that it needs
 * @param found is given the pid
 */
record NewPid(CarriedState carried, IntConsumer found) implements RestoreListener {

  @Override
  public void preRestore() {
    carried.preRestore();
  }

  @Override
  public void setupNamespaces(int root) throws VetoException {
    found.accept(root);
  }

  @Override
  public void postRestore(int root) {
    carried.postRestore(root);
  }
}
