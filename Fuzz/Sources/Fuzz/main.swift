import CLibFuzzer
import FuzzTargets
import Glibc

// Fuzz --list: the targets.
// Fuzz TARGET [option or directory of libFuzzer …]: fuzzes one. scripts/fuzz.sh calls it.

if CommandLine.arguments.dropFirst().first == "--list" {
  for target in FuzzTarget.allCases { print(target.rawValue) }
  exit(0)
}

/// Set once, before libFuzzer starts.
nonisolated(unsafe) private var target = FuzzTarget.keybag

// libFuzzer starts this program again to merge, with the options that it was given: the target is in the environment.
let variable = "FUZZ_TARGET"
if unsafe getenv(variable) == nil, CommandLine.argc > 1 { unsafe setenv(variable, CommandLine.arguments[1], 1) }
let isNamed = CommandLine.arguments.dropFirst().first.flatMap(FuzzTarget.init) != nil
guard let name = unsafe getenv(variable).map({ unsafe String(cString: $0) }), let chosen = FuzzTarget(rawValue: name)
else {
  print("Give a target: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")).")
  exit(64)
}
unsafe target = chosen

// Options behind count more than those before, so these are only what is meant where nothing is said.
let given = CommandLine.arguments.dropFirst(isNamed ? 2 : 1)
let options = [CommandLine.arguments[0], "-max_len=\(chosen.longestInput)"] + given
var argumentCount = CInt(options.count)
var arguments = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: options.count + 1)
for (index, option) in options.enumerated() { unsafe arguments[index] = unsafe strdup(option) }
unsafe arguments[options.count] = nil
var pointer: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = unsafe arguments
let status = unsafe LLVMFuzzerRunDriver(&argumentCount, &pointer) { start, count in
  unsafe target.run(Array(UnsafeBufferPointer(start: start, count: count)))
  return 0
}
exit(status)
