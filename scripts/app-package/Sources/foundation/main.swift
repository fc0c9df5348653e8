import Foundation

// As much of Foundation as DataProtection needs: its notifications, and with them all of it.
NotificationCenter.default.post(name: Notification.Name("note"), object: nil)
print(NSString(string: CommandLine.arguments.last!).lastPathComponent)
