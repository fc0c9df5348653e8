// Nothing is called by name here: the library takes the places of libc's functions in the process it is loaded into.
