// Classes, states and the client of the daemon, as the command uses them too.
@_exported import ProtectfsClient
@_exported import ProtectfsPolicy
