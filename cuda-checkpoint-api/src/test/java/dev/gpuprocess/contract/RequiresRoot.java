package dev.gpuprocess.contract;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A test that only root can run, or a class of them: for any other user they are skipped, with the
 * reason.
 */
@Documented
@Inherited
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(RootCondition.class)
public @interface RequiresRoot {

  /**
   * What it does that needs root.
   *
   * @return such as {@code gives files away}
   */
  String value();
}
