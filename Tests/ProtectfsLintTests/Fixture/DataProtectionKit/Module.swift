/// A module of an app, whose name starts as the library's.
public struct Kit {}
