package runtime

import "context"

// Joinable reports whether the streams of a model step as one batch.
func Joinable(m *Model) bool {
	p, err := m.set.current.stepper(context.Background())
	return err == nil && p.inAxis != nil
}

// IdleBytes is the working memory that no step of the model's streams is using.
func IdleBytes(m *Model) (sum int64) {
	p, err := m.set.current.stepper(context.Background())
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.idle {
		sum += l.bytes
	}
	return sum
}

// Idle returns the number of sessions that Model.Run keeps, and their bytes.
func Idle(m *Model) (n int, bytes int64) {
	m.sessions.mu.Lock()
	defer m.sessions.mu.Unlock()
	return len(m.sessions.idle), m.sessions.held
}
