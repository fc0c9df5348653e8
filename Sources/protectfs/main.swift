import ProtectfsIO

Process.endsOnClosedPipe()
Invocation.run(CommandLine.arguments)
