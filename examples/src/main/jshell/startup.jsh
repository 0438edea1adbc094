import dev.gpuprocess.*
import dev.gpuprocess.cuda.*
import dev.gpuprocess.error.*
import dev.gpuprocess.fixtures.*
import dev.gpuprocess.image.*
import java.nio.file.*
import java.time.*
