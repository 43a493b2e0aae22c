package cpu

// sequenceKernel computes a core over whole sequences.
type sequenceKernel interface {
	scratch() int
}

func (c *coreCall) sequences() error { return nil }
