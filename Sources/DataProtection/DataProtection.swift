// All that needs no more of Foundation than FoundationEssentials.
@_exported import DataProtectionEssentials
// As UIKit does: code that has no other import than that of UIKit needs this module's alone.
@_exported import Foundation
