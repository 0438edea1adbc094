/**
 * What the library reports: processes and their identities, the steps and times of its work, and
 * the findings of the doctor. Immutable values.
 */
@NullMarked
package dev.gpuprocess.report;

import org.jspecify.annotations.NullMarked;
