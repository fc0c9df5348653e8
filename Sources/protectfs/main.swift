import Glibc

// Names that hold no terminal characters go out as they are, and a closed pipe ends a report like a full one.
signal(SIGPIPE, SIG_DFL)
Invocation.run(CommandLine.arguments)
