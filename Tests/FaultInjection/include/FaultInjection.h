// Nothing is called by name here: what stands in the place of the store's calls does so from the start of a process.
