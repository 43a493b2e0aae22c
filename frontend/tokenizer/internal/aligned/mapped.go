package aligned

// Mapped appends the ASCII bytes from `from` to `to` of the text, each replaced by its entry of a table of ASCII.
func (e *Edit) Mapped(from, to int, table *[128]byte) {
	if !e.moved && from != len(e.out) {
		e.move()
	}
	for _, c := range []byte(e.t.s[from:to]) {
		e.out = append(e.out, table[c&127])
	}
	switch {
	case !e.moved:
	case e.t.places != nil:
		e.places = append(e.places, e.t.places[from:to]...)
	default:
		p := e.t.start + int32(from)
		for range to - from {
			e.places = append(e.places, Span{p, p + 1})
			p++
		}
	}
}
