package dev.gpuprocess.criu;

import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;

/** One CHECK. */
final class CheckOperation {

  private final Question question;

  CheckOperation(CriuBinary criu) {
    this.question = new Question(criu, "check", "CRIU's check of this kernel");
  }

  void run() {
    question.require(criu_req.newBuilder().setType(criu_req_type.CHECK).build());
  }
}
