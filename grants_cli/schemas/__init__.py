"""The JSON schemas of the files that this package writes: the contract with whoever else reads them."""
