package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import java.util.Set;

/**
 * An attribute of a process that an image would not hold.
 *
 * @param attribute the attribute
 * @param pid the process
 * @param what a clause about the process, such as {@code has 3 sealed mappings}
 */
record FoundAttribute(Attribute attribute, int pid, String what) {

  /**
   * Returns a problem, or a warning if the loss is allowed or the attribute is not one of
   * confinement.
   */
  Finding finding(Set<Attribute> allowed) {
    String subject =
        "process " + pid + ProcFs.stat(pid).map(ProcStat::name).map(" (%s)"::formatted).orElse("");
    if (!attribute.isRefused() || allowed.contains(attribute)) {
      return new Finding(
          Severity.WARNING, subject, what + ", which a restore does not bring back", "");
    }
    String option = "DumpOptions.allowLoss(Attribute.%s)".formatted(attribute);
    return new Finding(
        Severity.PROBLEM,
        subject,
        what
            + (attribute == Attribute.SHARED_FILES
                ? ", so the image cannot hold that memory"
                : ", and a restored process would be less confined"),
        "set %s to accept that".formatted(option),
        new UnsupportedResource(
            UnsupportedResource.Kind.OTHER, pid, "attribute", attribute.text(), option));
  }
}
