package dev.gpuprocess.options;

/**
 * How packets are kept from connected TCP sockets while their process does not exist (CRIU {@code
 * network-lock}). The lock stays after the dump until the restore, which uses the same method.
 */
public enum NetworkLock {
  /** {@link #IPTABLES} if its programs are installed, otherwise {@link #NFTABLES}. */
  AUTOMATIC,
  /** By rules that the programs {@code iptables-restore} and {@code ip6tables-restore} set. */
  IPTABLES,
  /** By rules that CRIU sets itself, if it was built with nftables. */
  NFTABLES,
  /** Not at all: a peer that sends in the meantime gets a reset. */
  SKIP
}
