import ProtectfsIO

Process.resetInheritedSignals()
Invocation.run(CommandLine.arguments)
