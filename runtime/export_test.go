package runtime

// Joinable reports whether the streams of a model step as one batch.
func Joinable(m *Model) bool {
	p, err := m.stepper()
	return err == nil && p.inAxis != nil
}
