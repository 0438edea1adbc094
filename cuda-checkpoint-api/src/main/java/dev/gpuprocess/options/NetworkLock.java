package dev.gpuprocess.options;

/**
 * How packets are kept from connected TCP sockets while their process is not there (CRIU {@code
 * network-lock}). The lock outlives the dump, until the restore; the restore uses the method of the
 * dump.
 */
public enum NetworkLock {
  /** {@link #IPTABLES} where its programs are installed, else {@link #NFTABLES}. */
  AUTOMATIC,
  /** By rules that the programs {@code iptables-restore} and {@code ip6tables-restore} set. */
  IPTABLES,
  /** By rules that CRIU sets itself, if it was built with nftables. */
  NFTABLES,
  /** Not at all: a peer that sends meanwhile gets a reset. */
  SKIP
}
