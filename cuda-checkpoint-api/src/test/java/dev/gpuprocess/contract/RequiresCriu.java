package dev.gpuprocess.contract;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A test of real CRIU, or a class of them: skipped, with the reason, where no CRIU works and none
 * was named. The driver asked is the one that {@link java.util.ServiceLoader} finds.
 */
@Documented
@Inherited
@Target({ElementType.METHOD, ElementType.TYPE})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(CriuCondition.class)
public @interface RequiresCriu {}
