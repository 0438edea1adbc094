// The main job on a simulated GPU: bin/jshell examples/src/main/jshell/main-job.jsh
// On a real one: GpuProcess.of(pid).lock().checkpoint() and so on, with the pid of any CUDA process.

int exit = 1 // until all has succeeded: JShell continues after an error

var machine = SimulatedDriver.create()
var gpus = GpuCheckpoints.builder().cuda(machine.directory()).build()
var scratch = Files.createTempDirectory("main-job")
var counter = Counter.start(machine)
var before = counter.increment()

var image = gpus.process(counter.pid()).lock().checkpoint().dump(scratch.resolve("image"))
var running = image.restore().restore().unlock()
var after = counter.increment()

running.steps().forEach(System.out::println)
System.out.println("main job: " + before + " -> " + after)
exit = running.state() == ProcessState.RUNNING && before == 101 && after == 102 ? 0 : 1

counter.close()
machine.close()
try (var files = Files.walk(scratch)) { files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete()); }
/exit exit
