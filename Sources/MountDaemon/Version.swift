/// The version of protectfs, as `--version` and the control socket tell it.
package let protectfsVersion = "0.2.0"
