// Classes, states and the client of the daemon, which the command uses too.
@_exported import ProtectfsClient
@_exported import ProtectfsPolicy
