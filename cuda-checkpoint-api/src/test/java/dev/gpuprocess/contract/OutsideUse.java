package dev.gpuprocess.contract;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A test of something that outside use broke. Its value is the row of {@code
 * docs/dev/outside-use.md} that it stands for; {@code bin/verify} counts the rows whose tests all
 * passed.
 */
@Documented
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(OutsideUseReport.class)
public @interface OutsideUse {

  /**
   * The row.
   *
   * @return such as {@code A1}
   */
  String value();
}
