package dev.gpuprocess.report;

import dev.gpuprocess.GpuCheckpoints;
import java.util.List;

/**
 * What {@link GpuCheckpoints#doctor()} found.
 *
 * @param findings in the order of the checks
 */
public record Diagnosis(List<Finding> findings) {

  /** Keeps a copy. */
  public Diagnosis {
    findings = List.copyOf(findings);
  }

  /**
   * Tells whether everything that was checked works.
   *
   * @return true when no finding is a problem
   */
  public boolean isHealthy() {
    return findings.stream().noneMatch(Finding::isProblem);
  }

  /**
   * What does not work.
   *
   * @return the findings that are problems
   */
  public List<Finding> problems() {
    return findings.stream().filter(Finding::isProblem).toList();
  }

  /**
   * The findings as text.
   *
   * @return one line each, beginning with the severity
   */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    for (Finding finding : findings) {
      text.append("%-8s %s%n".formatted(finding.severity(), finding));
    }
    return text.toString();
  }
}
