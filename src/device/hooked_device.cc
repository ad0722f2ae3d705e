// (in preparation)
